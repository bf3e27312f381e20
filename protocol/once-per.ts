/** Returns `make` with what it makes of each object kept for as long as the object. */
export function oncePer<Key extends WeakKey, Made>(make: (key: Key) => Made): (key: Key) => Made {
  const made = new WeakMap<Key, Made>();
  return key => {
    const known = made.get(key);
    if (known !== undefined) return known;
    const fresh = make(key);
    made.set(key, fresh);
    return fresh;
  };
}
