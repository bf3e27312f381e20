import type { Item, ToolCallItem, ToolResultItem } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import { GrowingInput, type Input } from '../turn/growing-input.ts';
import { parseArguments } from '../turn/parse-arguments.ts';
import { resultsByCall } from '../turn/results-by-call.ts';
import { generationOf } from './generation.ts';
import { modelParts, thoughtParts, userParts } from './message-parts.ts';
import { keptBy, PROVIDER, signed } from './wire-part.ts';

/**
 * The transcript as contents of user and model. The parts of a model's turn stand as they came. The
 * responses to all its calls follow in one content of their own, in call order, wherever their results
 * stand. System messages at the beginning are the `opening`; later ones are words of the user,
 * because contents have no other place for them. `begun`: other contents stand before these.
 */
function contentsOf(transcript: readonly Item[], model: string, begun: boolean): Input {
  const start = begun ? 0 : transcript.findIndex(item => !isSystem(item) && !isControl(item));
  const opening = transcript.slice(0, start === -1 ? transcript.length : start);
  const writer = new ContentWriter(transcript, generationOf(model));
  for (const item of transcript.slice(opening.length)) writer.add(item);
  return {
    opening: opening.map(textOf).filter(text => text !== ''),
    input: writer.contents(begun),
  };
}

/** The same, made anew only where the transcript has gone on. */
export function growingContents(model: string): (transcript: readonly Item[]) => Input {
  const growing = new GrowingInput({
    make: (items, begun) => contentsOf(items, model, begun),
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

/** Taken where the first content would not be the user's. */
const NOTHING_SAID: JsonObject = { role: 'user', parts: [{ text: '' }] };

/**
 * What stands for the signature of a call that Gemini did not make, or made before it signed calls:
 * https://ai.google.dev/gemini-api/docs/thought-signatures
 */
const NOT_SIGNED = 'skip_thought_signature_validator';

/** Every call must be answered, also one whose result somebody has taken out. */
const MISSING: Omit<ToolResultItem, 'type' | 'callId'> = {
  output: 'There is no result of this call.',
  isError: true,
};

/**
 * Writes contents item by item.
 *
 * W1 What the model made without anything between is one content.
 * W2 Every call has exactly one response, right behind its content; a result without a call has none.
 * W3 The first content is the user's.
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

  contents(begun: boolean): JsonObject[] {
    this.#endModel();
    return begun || this.#contents[0]?.role === 'user' ? this.#contents : [NOTHING_SAID, ...this.#contents];
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
      this.#contents.push({ role: 'user', parts: this.#calls.map(call => this.#responsePart(call)) });
    }
    this.#model = [];
    this.#calls = [];
    this.#user = undefined;
  }

  /** Of the calls of one content only the first carries a signature. */
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

  #responsePart(call: ToolCallItem): JsonObject {
    const result = this.#results.get(call.callId)?.shift() ?? MISSING;
    const said = result.shown ?? result.output;
    return {
      functionResponse: {
        name: call.name,
        response: result.isError ? { error: said } : { result: said },
        ...(keptBy(call).hasId ? { id: call.callId } : {}),
      },
    };
  }
}
