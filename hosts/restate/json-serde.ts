import type { Serde } from '@restatedev/restate-sdk';

/**
 * Serializes values as JSON, and `undefined` as no bytes. Equal to the serde of Restate's SDK, which is optional and
 * may not be installed.
 */
export function json<Value>(): Serde<Value> {
  return {
    contentType: 'application/json',
    serialize: value =>
      value === undefined ? new Uint8Array() : new TextEncoder().encode(JSON.stringify(value)),
    deserialize: bytes =>
      bytes.length === 0 ? (undefined as Value) : JSON.parse(new TextDecoder().decode(bytes)),
  };
}
