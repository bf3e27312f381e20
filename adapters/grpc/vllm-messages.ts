import type { JsonObject, JsonValue } from '../../protocol/json.ts';
import { ProtoWriter, readFields, readPacked } from './protobuf.ts';

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
  /** By the names of `SamplingParams`. */
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

/** Returns `false` if the value has another type than the field. */
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

/** Returns `undefined` for a message of an unknown kind. Throws a `RangeError` for bytes that are no message. */
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
