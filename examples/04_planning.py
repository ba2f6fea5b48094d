"""
Planning before any data is read
===================================

The planner knows the number of nodes and records, the graph and the budget, and nothing else. It
chooses the algorithm and its settings and forecasts what the budget buys.
"""

# %%
# Twenty members with 300 records each and a model of 20 coefficients.

import matplotlib.pyplot as plt

import tacenda as tc

graph = tc.graph.random_regular(20, 4, seed=0)
plan = tc.plan(300, 20, graph, epsilon=1.0, delta=1e-5)
print(plan.explain())

# %%
# What more of anything would buy: the factor on the excess risk, below one is better.

changes = plan.what_if()
figure, axes = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
axes.barh([change.name for change in changes], [change.factor for change in changes])
axes.axvline(1, color="0.5", linewidth=1)
axes.set(title="What would help most", xlabel="factor on the excess risk")
plt.show()

# %%
# How many records would a target need?

print(tc.records_needed(20, graph, epsilon=1.0, target_excess=0.02).explain())
