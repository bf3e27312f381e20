// vLLM's gRPC API: its messages in protobuf's wire format, connections, and the adapter skeleton of everything that
// generates tokens from tokens. https://protobuf.dev/programming-guides/encoding/ describes the format.

/** Writes a message. Numbers are unsigned integers below 2^53, but for `int32` and `float`. */
export class ProtoWriter {
  readonly #bytes: number[] = [];

  finish(): Uint8Array {
    return Uint8Array.from(this.#bytes);
  }

  uint(field: number, value: number): this {
    return this.#varint(field * 8).#varint(value);
  }

  /** Negative numbers are written in ten bytes, as for all signed integers. */
  int32(field: number, value: number): this {
    if (value >= 0) return this.uint(field, value);
    const groups = [0, 7, 14, 21, 28, 31, 31, 31, 31].map(shift => ((value >> shift) & 0x7f) | 0x80);
    return this.#varint(field * 8).#push([...groups, 1]);
  }

  bool(field: number, value: boolean): this {
    return this.uint(field, value ? 1 : 0);
  }

  float(field: number, value: number): this {
    return this.#varint(field * 8 + 5).#push(new Uint8Array(new Float32Array([value]).buffer));
  }

  string(field: number, value: string): this {
    return this.bytes(field, new TextEncoder().encode(value));
  }

  bytes(field: number, value: Uint8Array): this {
    return this.#varint(field * 8 + 2)
      .#varint(value.length)
      .#push(value);
  }

  packed(field: number, values: readonly number[]): this {
    const inner = new ProtoWriter();
    for (const value of values) inner.#varint(value);
    return this.bytes(field, inner.finish());
  }

  #push(bytes: Iterable<number>): this {
    for (const byte of bytes) this.#bytes.push(byte);
    return this;
  }

  #varint(value: number): this {
    let rest = value;
    for (; rest > 0x7f; rest = Math.floor(rest / 0x80)) this.#bytes.push((rest % 0x80) | 0x80);
    this.#bytes.push(rest);
    return this;
  }
}

/** A field as received: a number for varints, bytes for everything with a length. */
type ProtoField = { field: number; value: number | Uint8Array };

/** Reads fields in order, but for fixed-size numbers, which no message here has. Throws a `RangeError` if it cannot. */
export function readFields(bytes: Uint8Array): ProtoField[] {
  const reader = new ProtoReader(bytes);
  const fields: ProtoField[] = [];
  while (!reader.isAtEnd) {
    const tag = reader.varint();
    const field = Math.floor(tag / 8);
    if (field === 0) throw new RangeError('a field has the number 0');
    const type = tag % 8;
    if (type === 0) fields.push({ field, value: reader.varint() });
    else if (type === 2) fields.push({ field, value: reader.take(reader.varint()) });
    else if (type === 1 || type === 5) reader.take(type === 1 ? 8 : 4);
    else throw new RangeError(`field ${field} has the unknown wire type ${type}`);
  }
  return fields;
}

/** Reads a list of numbers in packed form. Throws a `RangeError` if a number is incomplete. */
export function readPacked(bytes: Uint8Array): number[] {
  const reader = new ProtoReader(bytes);
  const values: number[] = [];
  while (!reader.isAtEnd) values.push(reader.varint());
  return values;
}

class ProtoReader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length;
  }

  varint(): number {
    let value = 0;
    for (let factor = 1, count = 0; count < 10; factor *= 0x80, count += 1) {
      const byte = this.#bytes[this.#at];
      if (byte === undefined) throw new RangeError('the message ends within a number');
      this.#at += 1;
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
    }
    throw new RangeError('a number has more than ten bytes');
  }

  take(length: number): Uint8Array {
    const end = this.#at + length;
    if (end > this.#bytes.length) throw new RangeError('the message ends within a field');
    const taken = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return taken;
  }
}
