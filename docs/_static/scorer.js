// Pages that answer a user's question come first; decisions, measurements and the changelog last.
const LAST = /^(decisions|results|changelog|papers|experiments|symbols|testing|releasing|contributing|architecture)/;
const FIRST = /^(symptoms|for-your-boss|what-epsilon-means|node-|start|export|r-users|bounds|statisticians|describe|survival|threat-model)/;

var Scorer = {
  score: (result) => {
    const [page, , , , score] = result;
    if (LAST.test(page)) return score - 40;
    return FIRST.test(page) ? score + 4 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
