import { unpack } from "./payload.js";

const waiting = new WeakMap(); // one timer per mount point

/** Invisible: notifies Python once after some seconds. */
export default function ({ parentElement, data, setTriggerValue }) {
  const { turn, seconds } = unpack(data).head;
  clearTimeout(waiting.get(parentElement));
  waiting.set(parentElement, setTimeout(() => setTriggerValue("due", turn), 1000 * seconds));
  return () => clearTimeout(waiting.get(parentElement));
}
