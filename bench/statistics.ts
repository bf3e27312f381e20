/** Returns the median; `NaN` for an empty list. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const upper = sorted[Math.floor(middle)] ?? Number.NaN;
  return Number.isInteger(middle) ? ((sorted[middle - 1] ?? Number.NaN) + upper) / 2 : upper;
}

/** Returns `k` of the best fit for `cost = c · size^k`: 1 is linear, 2 is quadratic. */
export function fitExponent(points: readonly { size: number; cost: number }[]): number {
  const logs = points.map(({ size, cost }) => ({ x: Math.log(size), y: Math.log(cost) }));
  const meanX = mean(logs.map(({ x }) => x));
  const meanY = mean(logs.map(({ y }) => y));
  const covariance = mean(logs.map(({ x, y }) => (x - meanX) * (y - meanY)));
  return covariance / mean(logs.map(({ x }) => (x - meanX) ** 2));
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
