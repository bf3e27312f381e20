/** How often a terminal shows how far it is, in ms. */
const SHOWN_EVERY_MS = 100;

/** Calls `work` with a function that shows on a terminal how far it is, in place of what it showed before. */
export async function withProgress<Result>(
  work: (show: (text: string) => void) => Promise<Result>,
): Promise<Result> {
  if (process.stderr.isTTY !== true) return await work(() => {});
  let shownAt = Number.NEGATIVE_INFINITY;
  try {
    return await work(text => {
      const now = performance.now();
      if (now - shownAt < SHOWN_EVERY_MS) return;
      shownAt = now;
      process.stderr.write(`\r\u001b[K${text}`);
    });
  } finally {
    process.stderr.write('\r\u001b[K');
  }
}
