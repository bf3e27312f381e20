// Google's Gemini API: the conversion of transcripts to contents, the request body, and the reading of responses and
// streams, with thought signatures kept for replay.
import { mediaTypeOf, readContent, textOfParts } from '../../protocol/content/read-content.ts';
import type { Item, ToolCallItem, ToolResultItem } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import { GrowingInput, type Input } from '../turn/growing-input.ts';
import { parseArguments } from '../turn/parse-arguments.ts';
import { mediaOfParts, partsOfResult } from '../turn/result-content.ts';
import { resultsByCall } from '../turn/results-by-call.ts';
import { generationOf } from './generation.ts';
import { isResponseMedia, mediaPart, readsMedia } from './media.ts';
import { modelParts, thoughtParts, userParts } from './message-parts.ts';
import { keptBy, PROVIDER, signed } from './wire-part.ts';

/**
 * Converts a transcript to contents of user and model. The parts of a model turn stay unchanged. The
 * responses to all its calls follow in one content, in call order, wherever their results are in the
 * transcript. Leading system messages become the `opening`; later ones become user text, because contents
 * have no other place for them. `hasPrevious`: other contents precede these.
 */
function contentsOf(
  transcript: readonly Item[],
  model: string,
  { hasPrevious }: { hasPrevious: boolean },
): Input {
  const start = hasPrevious ? 0 : transcript.findIndex(item => !isSystem(item) && !isControl(item));
  const opening = transcript.slice(0, start === -1 ? transcript.length : start);
  const writer = new ContentWriter(transcript, generationOf(model));
  for (const item of transcript.slice(opening.length)) writer.add(item);
  return {
    opening: opening.map(textOf).filter(text => text !== ''),
    input: hasPrevious ? writer.contents() : startingWithUser(writer.contents()),
  };
}

/** Returns a function like `contentsOf` that converts only what the transcript gained. */
export function growingContents(model: string): (transcript: readonly Item[]) => Input {
  const growing = new GrowingInput({
    make: (items, options) => contentsOf(items, model, options),
    namesOf: item => ('callId' in item ? [item.callId] : []),
    joins: (last, next) => last.role === next.role,
  });
  return transcript => growing.of(transcript);
}

function isSystem(item: Item): boolean {
  return item.type === 'message' && (item.role === 'system' || item.role === 'developer');
}

function isControl({ type }: Item): boolean {
  return type === 'approval_request' || type === 'approval_response' || type === 'tool_list';
}

/** The API requires the first content to be the user's. */
function startingWithUser(contents: JsonObject[]): JsonObject[] {
  return contents[0]?.role === 'user' ? contents : [{ role: 'user', parts: [{ text: '' }] }, ...contents];
}

/**
 * Replaces the signature of a call that another model made, or Gemini before it signed calls:
 * https://ai.google.dev/gemini-api/docs/thought-signatures
 */
const NOT_SIGNED = 'skip_thought_signature_validator';

/** The response to a call without a result. The API requires one for every call. */
const MISSING: Omit<ToolResultItem, 'type' | 'callId'> = {
  output: 'There is no result of this call.',
  isError: true,
};

/**
 * Writes contents item by item.
 *
 * W1 Consecutive items of the model form one content.
 * W2 Every call has exactly one response, directly after its content. A result without a call is omitted.
 */
class ContentWriter {
  readonly #generation: number;
  readonly #results: ReadonlyMap<string, ToolResultItem[]>;
  readonly #contents: JsonObject[] = [];
  #model: JsonObject[] = [];
  #calls: ToolCallItem[] = [];
  #user: JsonObject[] | undefined;

  constructor(transcript: readonly Item[], generation: number) {
    this.#generation = generation;
    this.#results = resultsByCall(transcript);
  }

  /** Adds the next item of the transcript. */
  add(item: Item): void {
    switch (item.type) {
      case 'message':
        if (item.role === 'assistant') this.#model.push(...modelParts(item));
        else this.#addUser(userParts(item));
        return;
      case 'reasoning':
        this.#model.push(...thoughtParts(item));
        return;
      case 'tool_call':
        this.#model.push(this.#callPart(item));
        this.#calls.push(item);
        return;
      case 'provider_item': {
        const { part } = keptBy(item);
        if (part) this.#model.push(part);
        return;
      }
      case 'tool_result':
        if (this.#calls.length > 0) this.#endModel();
        return;
    }
  }

  /** Returns the contents. */
  contents(): JsonObject[] {
    this.#endModel();
    return this.#contents;
  }

  #addUser(parts: JsonObject[]): void {
    if (parts.length === 0) return;
    this.#endModel();
    if (this.#user) this.#user.push(...parts);
    else {
      this.#user = parts;
      this.#contents.push({ role: 'user', parts });
    }
  }

  #endModel(): void {
    if (this.#model.length === 0) return;
    this.#contents.push({ role: 'model', parts: this.#model });
    if (this.#calls.length > 0) {
      this.#contents.push({ role: 'user', parts: this.#calls.flatMap(call => this.#responseParts(call)) });
    }
    this.#model = [];
    this.#calls = [];
    this.#user = undefined;
  }

  /** Only the first call of a content has a signature. */
  #callPart(item: ToolCallItem): JsonObject {
    const parsed = parseArguments(item.arguments);
    const { thoughtSignature, hasId } = keptBy(item);
    const signature = thoughtSignature ?? (this.#needsSignature(item) ? NOT_SIGNED : undefined);
    return {
      functionCall: {
        name: item.name,
        args: 'input' in parsed ? parsed.input : {},
        ...(hasId ? { id: item.callId } : {}),
      },
      ...signed(signature),
    };
  }

  #needsSignature(item: ToolCallItem): boolean {
    if (this.#calls.length > 0 || this.#generation < 2.5) return false;
    return this.#generation >= 3 || item.opaque?.provider !== PROVIDER;
  }

  /**
   * The response to a call. From Gemini 3 on, images and PDF files are part of it; for older models they follow it, as
   * do sounds and videos: https://ai.google.dev/gemini-api/docs/function-calling#multimodal
   */
  #responseParts(call: ToolCallItem): JsonObject[] {
    const result = this.#results.get(call.callId)?.shift() ?? MISSING;
    const isContent = readContent(result.output) !== undefined;
    const content = partsOfResult(result, readsMedia);
    const value = isContent ? textOfParts(content) : (result.shown ?? result.output);
    const media = mediaOfParts(content);
    const inside = media.filter(part => this.#generation >= 3 && isResponseMedia(mediaTypeOf(part)));
    const functionResponse = {
      name: call.name,
      response: result.isError ? { error: value } : { result: value },
      ...(inside.length > 0 ? { parts: inside.map(mediaPart) } : {}),
      ...(keptBy(call).hasId ? { id: call.callId } : {}),
    };
    return [{ functionResponse }, ...media.filter(part => !inside.includes(part)).map(mediaPart)];
  }
}
