import { type Serde, serde } from '@restatedev/restate-sdk';

/** Values in Restate are JSON. */
export function json<Value>(): Serde<Value> {
  return serde.json as Serde<Value>;
}
