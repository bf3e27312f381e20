/**
 * Returns how long the headers ask the client to wait, in ms: from `retry-after-ms`, else from `retry-after`
 * in seconds or as an HTTP date. Returns `null` without such a header. `now` is in ms since the epoch.
 */
export function retryAfterMs(headers: Pick<Headers, 'get'>, now: number): number | null {
  const exact = numberIn(headers.get('retry-after-ms'));
  if (exact !== null) return exact;
  const hint = headers.get('retry-after');
  const seconds = numberIn(hint);
  if (seconds !== null) return Math.round(seconds * 1_000);
  const date = Date.parse(hint ?? '');
  return Number.isNaN(date) ? null : Math.max(0, date - now);
}

function numberIn(text: string | null): number | null {
  if (text === null || text.trim() === '') return null;
  const value = Number(text);
  return Number.isFinite(value) && value >= 0 ? value : null;
}
