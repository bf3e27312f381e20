import type { BetaCompactionBlock } from '@anthropic-ai/sdk/resources/beta/messages/messages';
import type {
  Message,
  Usage as MessageUsage,
  RawContentBlockDeltaEvent,
  RawContentBlockStopEvent,
  RawMessageDeltaEvent,
  RawMessageStopEvent,
  RedactedThinkingBlock,
  ServerToolUseBlock,
  TextBlock,
  ThinkingBlock,
  ToolUseBlock,
  WebSearchToolResultBlock,
} from '@anthropic-ai/sdk/resources/messages/messages';
import { nonEmpty } from '../../adapters/turn/json-access.ts';
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import type { Usage } from '../../protocol/turn.ts';
import {
  type AnswerEnd,
  type AnswerEvent,
  type AnswerWriter,
  AWAITS_ANSWERS,
  addUsages,
  argumentsIn,
  NO_USAGE,
  type PlacedCall,
  refusalIn,
  UNDER_REVIEW,
  waitsForPeople,
} from '../gateway/answer/answer-event.ts';
import type { NameCall } from '../gateway/runs/continued-run.ts';
import type { ResponseHead } from '../gateway/runs/response-spec.ts';
import { describeMessageFailure, type MessageFailure } from './message-error.ts';
import { proofOf } from './thinking-proof.ts';
import { type Search, searchBlocksOf, searchIn } from './web-search.ts';

type Of<Type extends AnswerEvent['type']> = Extract<AnswerEvent, { type: Type }>;

type Block =
  | TextBlock
  | ThinkingBlock
  | RedactedThinkingBlock
  | ToolUseBlock
  | ServerToolUseBlock
  | WebSearchToolResultBlock
  | BetaCompactionBlock;

/** What Anthropic says about its own servers is left out. */
type WrittenUsage = Omit<MessageUsage, 'inference_geo' | 'speed'>;
type WrittenMessage = Omit<Message, 'diagnostics' | 'usage' | 'content'> & {
  content: Block[];
  usage: WrittenUsage;
  context_management?: ContextManagement;
};

type ContextManagement = { applied_edits: JsonObject[] };

export type MessageEvent =
  | { type: 'message_start'; message: WrittenMessage }
  | { type: 'content_block_start'; index: number; content_block: Block }
  | RawContentBlockDeltaEvent
  | RawContentBlockStopEvent
  | (Pick<RawMessageDeltaEvent, 'type' | 'delta'> & {
      usage: Partial<WrittenUsage>;
      context_management?: ContextManagement;
    })
  | RawMessageStopEvent
  | { type: 'error'; error: MessageFailure; request_id: string };

type MessageOptions = {
  thinking: 'shown' | 'omitted' | 'none';
  nameCall: NameCall;
  toolName(name: string): string;
  /** Whether the request has `context_management`. */
  managesContext: boolean;
  requestId: string;
};

/** `proof` is the signature of a thinking block. */
type OpenBlock = { key: string; block: Block; proof: string | null };

const EXPLANATIONS: Readonly<Record<string, string>> = {
  [UNDER_REVIEW]: 'The answer waits for a review by a person, and is not final.',
  [AWAITS_ANSWERS]: 'A tool of the server asks people something, and the answer waits for theirs.',
};

/**
 * Writes an answer as a message, whole and as its events.
 *
 * M1 Blocks have indexes from 0 without gaps, and one block ends before the next begins.
 * M2 The message is the sum of its events: `message_start`, the blocks, and `message_delta`.
 *
 * A retried attempt needs no care: the answer closes the text that went out and continues with new items, which are new
 * blocks here. In a stream the sealed reasoning may come after the text that follows it; then the signature is only the
 * id of the reasoning.
 */
export class MessagesApiWriter implements AnswerWriter<WrittenMessage> {
  readonly #head: ResponseHead;
  readonly #emit: (wire: MessageEvent) => void;
  readonly #options: MessageOptions;
  readonly #message: WrittenMessage;
  #open: OpenBlock | null = null;
  #calls = 0;
  #searches = 0;
  #isRefused = false;
  #usage: Usage | null = null;
  #edits: JsonObject[] = [];

  constructor(head: ResponseHead, emit: (wire: MessageEvent) => void, options: MessageOptions) {
    this.#head = head;
    this.#emit = emit;
    this.#options = options;
    const { model = head.spec.model } = head.spec.request;
    this.#message = {
      id: head.id.replace(/^resp_/, 'msg_'),
      type: 'message',
      role: 'assistant',
      model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      stop_details: null,
      container: null,
      usage: NOT_USED,
    };
  }

  get whole(): WrittenMessage {
    return { ...this.#message, content: [...this.#message.content] };
  }

  take(event: AnswerEvent): void {
    switch (event.type) {
      case 'begun':
        this.#emit({ type: 'message_start', message: this.whole });
        return;
      case 'text':
        return event.kind === 'message' ? this.#text(event.id, event.text) : this.#think(event);
      case 'closed':
        return event.kind === 'message' ? this.#closeMessage(event) : this.#closeThinking(event);
      case 'compaction':
        return this.#whole(event.id, compactionBlock(event));
      case 'provided':
      case 'call.ended': {
        const search = searchIn(event);
        return search === undefined ? undefined : this.#search(search);
      }
      case 'call.given':
        return event.as === 'function_call' ? this.#call(event.call) : undefined;
      case 'usage':
        this.#usage = addUsages(this.#usage, event.usage);
        return;
      case 'edited':
        this.#edits.push(...event.edits);
        return;
      case 'ended':
        return this.#end(event);
      default:
    }
  }

  #text(key: string, text: string): void {
    const { block, index } = this.#blockFor(key, { type: 'text', text: '', citations: null });
    block.text += text;
    this.#emit({ type: 'content_block_delta', index, delta: { type: 'text_delta', text } });
  }

  #closeMessage({ id, items }: Of<'closed'>): void {
    const refusal = refusalIn(items);
    if (refusal === '') return;
    this.#text(id, refusal);
    this.#isRefused = true;
  }

  /** The signature is `proofOf` the id, unless another one is known before the block ends. */
  #think({ id, text }: Of<'text'>): void {
    const { thinking: how } = this.#options;
    if (how === 'none') return;
    const { block, index } = this.#blockFor(id, { type: 'thinking', thinking: '', signature: '' });
    if (this.#open !== null) this.#open.proof = proofOf({ id });
    if (how === 'omitted') return;
    block.thinking += text;
    const delta = { type: 'thinking_delta' as const, thinking: text };
    this.#emit({ type: 'content_block_delta', index, delta });
  }

  /** Signs the thinking, or writes thinking without text as a redacted block. */
  #closeThinking({ id, text, seal }: Of<'closed'>): void {
    if (this.#options.thinking === 'none') return;
    const proof = proofOf({ id, seal });
    if (text === '' && seal !== undefined) this.#whole(proof, { type: 'redacted_thinking', data: proof });
    else if (this.#open?.key === id) this.#open.proof = proof;
  }

  #search(search: Search): void {
    this.#searches += 1;
    const { use, result } = searchBlocksOf(search);
    this.#writeCall(use.id, use, JSON.stringify(use.input), search.input);
    this.#whole(`${use.id} result`, result);
  }

  /** Arguments that are not an object cannot be a call's input: the client gets an empty one. */
  #call({ callId, name, arguments: given }: PlacedCall): void {
    const id = this.#options.nameCall(this.#head.id, this.#calls++, callId);
    const input = argumentsIn(given);
    const named = { id, name: this.#options.toolName(name) };
    const use = { type: 'tool_use', ...named, input: {}, caller: { type: 'direct' } } as const;
    if (isJsonObject(input)) this.#writeCall(id, use, given || '{}', input);
    else this.#writeCall(id, use, '{}', {});
  }

  #writeCall<Call extends ToolUseBlock | ServerToolUseBlock>(
    key: string,
    call: Call,
    written: string,
    input: JsonObject,
  ): void {
    const { block, index } = this.#blockFor(key, { ...call, input: {} });
    block.input = input;
    const delta = { type: 'input_json_delta' as const, partial_json: written };
    this.#emit({ type: 'content_block_delta', index, delta });
    this.#close();
  }

  #whole(key: string, block: Block): void {
    this.#blockFor(key, block);
    this.#close();
  }

  #end({ end, retryAfter }: Of<'ended'>): void {
    const failure = describeMessageFailure(end);
    if (failure !== undefined) {
      // An unstreamed request answers such a failure with the status 529.
      const isOverload = retryAfter !== null && failure.type === 'api_error';
      const error = isOverload ? { ...failure, type: 'overloaded_error' as const } : failure;
      this.#emit({ type: 'error', error, request_id: this.#options.requestId });
      return;
    }
    this.#close();
    const stop_reason = this.#stopReasonFor(end);
    const explanation = EXPLANATIONS[end.incompleteReason ?? ''] ?? null;
    const delta = {
      stop_reason,
      stop_sequence: null,
      stop_details:
        stop_reason === 'refusal' ? ({ type: 'refusal', category: null, explanation } as const) : null,
      container: null,
    };
    const usage = this.#usageNow();
    const managed = this.#options.managesContext && { context_management: { applied_edits: this.#edits } };
    Object.assign(this.#message, delta, { usage: { ...NOT_USED, ...usage }, ...managed });
    this.#emit({ type: 'message_delta', delta, usage, ...managed });
    this.#emit({ type: 'message_stop' });
  }

  #stopReasonFor(end: AnswerEnd): 'end_turn' | 'max_tokens' | 'tool_use' | 'refusal' {
    const { incompleteReason: reason } = end;
    if (reason === 'max_output_tokens') return 'max_tokens';
    if (reason === 'content_filter' || waitsForPeople(end) || this.#isRefused) return 'refusal';
    return this.#calls > 0 ? 'tool_use' : 'end_turn';
  }

  /** Anthropic counts cached tokens apart from other input tokens. */
  #usageNow(): Partial<WrittenUsage> {
    const usage = this.#usage ?? NO_USAGE;
    const read = usage.cachedInputTokens ?? 0;
    const made = usage.cacheWriteTokens ?? 0;
    const searches = { web_search_requests: this.#searches, web_fetch_requests: 0 };
    return {
      input_tokens: Math.max(0, usage.inputTokens - read - made),
      cache_creation_input_tokens: made,
      cache_read_input_tokens: read,
      output_tokens: usage.outputTokens,
      output_tokens_details: { thinking_tokens: usage.reasoningTokens ?? 0 },
      ...(this.#searches > 0 && { server_tool_use: searches }),
    };
  }

  #blockFor<Written extends Block>(key: string, begun: Written): { block: Written; index: number } {
    const open = this.#open;
    const index = this.#message.content.length - 1;
    if (open?.key === key && isOfType(open.block, begun)) return { block: open.block, index };
    this.#close();
    const block = { ...begun };
    this.#open = { key, block, proof: null };
    this.#message.content.push(block);
    this.#emit({ type: 'content_block_start', index: index + 1, content_block: begun });
    return { block, index: index + 1 };
  }

  #close(): void {
    if (this.#open === null) return;
    const { block, proof } = this.#open;
    const index = this.#message.content.length - 1;
    if (proof !== null && block.type === 'thinking') {
      block.signature = proof;
      const delta = { type: 'signature_delta' as const, signature: proof };
      this.#emit({ type: 'content_block_delta', index, delta });
    }
    this.#emit({ type: 'content_block_stop', index });
    this.#open = null;
  }
}

/** Anthropic's own, or one whose summary this server has. */
function compactionBlock({ content, item }: Of<'compaction'>): BetaCompactionBlock {
  if (item?.type === 'compaction' && 'content' in item)
    return {
      ...item,
      type: 'compaction',
      content: nonEmpty(item.content) ?? null,
      encrypted_content: nonEmpty(item.encrypted_content) ?? null,
    };
  return { type: 'compaction', content: SUMMARIZED, encrypted_content: nonEmpty(content) ?? null };
}

const SUMMARIZED = 'The conversation before this was summarized. The server has the summary.';

function isOfType<Written extends Block>(block: Block, begun: Written): block is Written {
  return block.type === begun.type;
}

const NOT_USED: WrittenUsage = {
  input_tokens: 0,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
  cache_creation: null,
  output_tokens: 0,
  output_tokens_details: null,
  server_tool_use: null,
  service_tier: null,
};
