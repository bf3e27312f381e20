/** Formats a duration in ms: `12 ms`, `1.4 s`, `3 min`, `2 h`, `5 days`. */
export function formatSpan(ms: number): string {
  const [seconds, minutes, hours] = [ms / 1000, ms / 60_000, ms / 3_600_000];
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (minutes < 60) return `${Math.round(minutes)} min`;
  if (hours < 48) return `${Math.round(hours)} h`;
  return `${Math.round(hours / 24)} days`;
}

/** Formats the distance of `at` from `now`, both in ms since the epoch: `2 min ago`, `in 1 h`. */
export function formatDistance(at: number, now: number): string {
  return at <= now ? `${formatSpan(now - at)} ago` : `in ${formatSpan(at - now)}`;
}

/** Formats a time in ms since the epoch as `HH:MM:SS.mmm`, in UTC. */
export function formatClock(at: number): string {
  return new Date(at).toISOString().slice(11, 23);
}
