"""Around the runs of one machine: settings, policy, queue, logs, backup and archive."""
