// The timeline of the picture: the text is read once, then generated step by step.

const READ = 2300; // ms
const [SHORTEST, LONGEST, ALL] = [420, 1700, 16000];

/** The still frame of a step: attention is complete and no token chosen yet. */
const REST = 0.74;

export const clamp = (value, low = 0, high = 1) => Math.min(high, Math.max(low, value));
export const lerp = (from, to, share) => from + (to - from) * share;
export const smooth = (share) => { const x = clamp(share); return x * x * (3 - 2 * x); };
/** Progress of a part: 0 before `from`, 1 after `to`. */
export const within = (share, from, to) => smooth((share - from) / (to - from));

export function clockOf(steps) {
  const step = clamp(ALL / Math.max(1, steps), SHORTEST, LONGEST);
  const end = READ + steps * step;
  return {
    end,
    /** The moment at a time: `read` of the text, then `step` with its share `p`. */
    at(time) {
      if (time < READ) return { read: time / READ, step: -1, p: 0 };
      if (!steps) return { read: 1, step: -1, p: 0 };
      const index = Math.min(steps - 1, Math.floor((time - READ) / step));
      return { read: 1, step: index, p: clamp((time - READ) / step - index) };
    },
    /** The still frame of step `index`; -1: before the first step. */
    restOf: (index) => (index < 0 ? READ * 0.999 : READ + (Math.min(index, steps - 1) + REST) * step),
  };
}
