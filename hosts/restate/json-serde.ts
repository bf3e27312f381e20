import type { Serde } from '@restatedev/restate-sdk';

/** Values in Restate are JSON; nothing is no bytes. As Restate's own, which is only there where its SDK is. */
export function json<Value>(): Serde<Value> {
  return {
    contentType: 'application/json',
    serialize: value =>
      value === undefined ? new Uint8Array() : new TextEncoder().encode(JSON.stringify(value)),
    deserialize: bytes =>
      bytes.length === 0 ? (undefined as Value) : JSON.parse(new TextDecoder().decode(bytes)),
  };
}
