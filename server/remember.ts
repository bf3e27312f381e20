export function remember<Key, Value>(known: Map<Key, Value>, key: Key, value: Value, most: number): void {
  known.delete(key);
  known.set(key, value);
  const [oldest] = known.keys();
  if (known.size > most && oldest !== undefined) known.delete(oldest);
}
