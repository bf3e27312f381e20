import type { JsonObject, JsonValue } from '../../protocol/json.ts';

/** The service and its methods: https://docs.vllm.ai, vllm_engine.proto. */
export const GENERATE = '/vllm.grpc.engine.VllmEngine/Generate';
export const ABORT = '/vllm.grpc.engine.VllmEngine/Abort';

type FieldType = 'float' | 'uint' | 'int32' | 'bool' | 'string' | 'strings' | 'uints';
type SamplingField = readonly [field: number, type: FieldType];

/** The members of `SamplingParams`. At most one of 16 to 20 may be set. */
const SAMPLING_FIELDS: Readonly<Record<string, SamplingField>> = {
  temperature: [1, 'float'],
  top_p: [2, 'float'],
  top_k: [3, 'uint'],
  min_p: [4, 'float'],
  frequency_penalty: [5, 'float'],
  presence_penalty: [6, 'float'],
  repetition_penalty: [7, 'float'],
  max_tokens: [8, 'uint'],
  min_tokens: [9, 'uint'],
  stop: [10, 'strings'],
  stop_token_ids: [11, 'uints'],
  skip_special_tokens: [12, 'bool'],
  spaces_between_special_tokens: [13, 'bool'],
  ignore_eos: [14, 'bool'],
  n: [15, 'uint'],
  json_schema: [16, 'string'],
  regex: [17, 'string'],
  grammar: [18, 'string'],
  structural_tag: [19, 'string'],
  json_object: [20, 'bool'],
  seed: [24, 'int32'],
};

export type GenerateRequest = {
  requestId: string;
  tokens: readonly number[];
  sampling: JsonObject;
};

/** Encodes a request, always for a stream. Throws a `RangeError` that names a sampling parameter it cannot encode. */
export function encodeGenerate({ requestId, tokens, sampling }: GenerateRequest): Uint8Array {
  const input = new ProtoWriter().packed(2, tokens);
  return new ProtoWriter()
    .string(1, requestId)
    .bytes(2, input.finish())
    .bytes(4, encodeSampling({ top_p: 1, repetition_penalty: 1, n: 1, ...sampling }))
    .bool(5, true)
    .finish();
}

export function encodeAbort(requestId: string): Uint8Array {
  return new ProtoWriter().string(1, requestId).finish();
}

function encodeSampling(sampling: JsonObject): Uint8Array {
  const writer = new ProtoWriter();
  for (const [name, value] of Object.entries(sampling)) {
    const known = Object.hasOwn(SAMPLING_FIELDS, name) ? SAMPLING_FIELDS[name] : undefined;
    if (known === undefined) throw new RangeError(`the sampling parameter "${name.slice(0, 40)}" is unknown`);
    if (value !== null && !writeField(writer, known, value)) {
      throw new RangeError(`the sampling parameter ${name} must be of the type ${known[1]}`);
    }
  }
  return writer.finish();
}

function writeField(writer: ProtoWriter, [field, type]: SamplingField, value: JsonValue): boolean {
  if (type === 'float' && typeof value === 'number') writer.float(field, value);
  else if (type === 'uint' && isUint(value)) writer.uint(field, value);
  else if (type === 'int32' && Number.isInteger(value)) writer.int32(field, Number(value));
  else if (type === 'bool' && typeof value === 'boolean') writer.bool(field, value);
  else if (type === 'string' && typeof value === 'string') writer.string(field, value);
  else if (type === 'strings' && Array.isArray(value) && value.every(text => typeof text === 'string'))
    for (const text of value) writer.string(field, text);
  else if (type === 'uints' && Array.isArray(value) && value.every(isUint)) writer.packed(field, value);
  else return false;
  return true;
}

function isUint(value: JsonValue): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < 2 ** 32;
}

/** A message of a reply. `tokens` of a chunk are new, those of `complete` are all of the reply. */
export type GenerateResponse = {
  type: 'chunk' | 'complete';
  tokens: number[];
  /** Empty in chunks. */
  finishReason: string;
  promptTokens: number;
  completionTokens: number;
  cachedTokens: number;
};

/** Returns `undefined` for a message of an unknown kind. Throws a `RangeError` for bytes that are not a message. */
export function decodeResponse(bytes: Uint8Array): GenerateResponse | undefined {
  const found = readFields(bytes).findLast(({ field }) => field === 1 || field === 2);
  if (found === undefined || typeof found.value === 'number') return undefined;
  const type = found.field === 1 ? 'chunk' : 'complete';
  const counts = { finishReason: '', promptTokens: 0, completionTokens: 0, cachedTokens: 0 };
  const tokens: number[][] = [];
  /** `complete` has its finish reason in front of the counts. */
  const shift = type === 'chunk' ? 0 : 1;
  for (const { field, value } of readFields(found.value)) {
    if (field === 1) tokens.push(typeof value === 'number' ? [value] : readPacked(value));
    else if (typeof value !== 'number') {
      if (type === 'complete' && field === 2) counts.finishReason = new TextDecoder().decode(value);
    } else if (field === 2 + shift) counts.promptTokens = value;
    else if (field === 3 + shift) counts.completionTokens = value;
    else if (field === 4 + shift) counts.cachedTokens = value;
  }
  return { type, tokens: tokens.flat(), ...counts };
}

// The wire format of protobuf: https://protobuf.dev/programming-guides/encoding/

/** Writes a message. Numbers are unsigned integers below 2^53, except `int32` and `float`. */
class ProtoWriter {
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

/** Reads fields in order, except fixed-size numbers, which no message here has. Throws a `RangeError` if it cannot. */
function readFields(bytes: Uint8Array): ProtoField[] {
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
function readPacked(bytes: Uint8Array): number[] {
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
