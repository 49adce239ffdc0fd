// The tokens of a film's step, for a growing sequence or a text with masks to fill in.

/** Which tokens a step has read, which query was read out, and where its own token is shown.
 *
 * A row that grows is read up to its newest token, and the one written now follows. A text that is
 * filled in is read whole, and what is written replaces the token that was asked about. */
export function readingOf({ row, frames, places }) {
  if (places) {
    const whole = row.tokens.length - 1;
    const unfilled = (index, step) => places.indexOf(index) >= step;
    return {
      fills: true,
      reads: () => whole,
      query: (step) => places[step],
      written: (step) => places[step],
      read: (index, step) => (unfilled(index, step) ? whole : index),
      shown: (index, step) => (unfilled(index, step) && places[step] !== index ? whole : index),
    };
  }
  const before = row.tokens.length - frames.length; // tokens in the row at the first step
  return { fills: false, reads: (step) => before + step, query: (step) => before + step - 1, written: (step) => before + step };
}
