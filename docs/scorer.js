// How the search ranks pages: guides and examples before the API, unless the query is its name.
const AFTER = [
  [/^generated\//, 20],
  [/^(api|changelog|contributing|decisions|design)$/, 10],
  [/^(benchmarks|leaderboard|results.*|upgrade)$/, 2],
  [/^(index|users|guides|evidence|project|reference|gallery\/index)$/, 1], // lists of pages
  [/^bioacoustics$/, 1], // a long page that mentions most terms
];

var Scorer = {
  score: ([page, , , , score, , kind]) => {
    if (kind === "object") return score;
    if (kind === "index") return 0.16 * score; // a term of the glossary, as a heading
    const found = AFTER.find(([pattern]) => pattern.test(page));
    return score - (found ? found[1] : 0);
  },
  objNameMatch: 40,
  objPartialMatch: 0,
  objPrio: { 0: 0, 1: 0, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
