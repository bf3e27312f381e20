import type { JsonObject, JsonValue } from '../../protocol/json.ts';

/** One server-sent event of a message. */
export type MessageEvent = JsonObject & { type: string };

/** The end of a message. */
export type MessageEnd = {
  stopReason: 'end_turn' | 'max_tokens' | 'tool_use' | 'refusal';
  usage: JsonObject;
};

/** A call of a tool of the client, or of this server. */
type WrittenCall = {
  type?: 'tool_use' | 'server_tool_use';
  id: string;
  name: string;
  input: JsonObject;
  written: string;
};

/** The block that is being written. `proof` is the signature of a thinking block. */
type OpenBlock = { key: string; block: JsonObject; proof: string | null };

/**
 * Writes the events of one message and builds the message from them.
 *
 * M1 Blocks have indexes from 0 without gaps, and one block ends before the next begins.
 * M2 The message is the sum of its events: `message_start`, the blocks, and `message_delta`.
 */
export class MessageWriter {
  readonly #message: JsonObject;
  readonly #content: JsonObject[] = [];
  #open: OpenBlock | null = null;
  #written: MessageEvent[] = [];

  constructor({ id, model }: { id: string; model: JsonValue }) {
    this.#message = {
      id,
      type: 'message',
      role: 'assistant',
      model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      stop_details: null,
      container: null,
      usage: NO_USAGE,
    };
  }

  /** The message so far. */
  get message(): JsonObject {
    return { ...this.#message, content: [...this.#content] };
  }

  /** Returns and clears the events written since the last call. */
  drain(): MessageEvent[] {
    const written = this.#written;
    this.#written = [];
    return written;
  }

  /** Writes `message_start`. */
  begin(): void {
    this.#write('message_start', { message: this.message });
  }

  /** Whether the open block is the one with this key. */
  isOpen(key: string): boolean {
    return this.#open?.key === key;
  }

  /** Adds a piece of text to the text block with this key, which it opens if another block is open. */
  text(key: string, text: string): void {
    const { block, index } = this.#blockFor(key, { type: 'text', text: '', citations: null });
    block.text = `${block.text}${text}`;
    this.#delta(index, { type: 'text_delta', text });
  }

  /**
   * Adds a piece of text, which may be empty, to the thinking block with this key, which it opens if another block is
   * open. `proof` is the signature of the block unless `prove` sets another one before the block ends.
   */
  think(key: string, thinking: string, proof: string): void {
    const { block, index } = this.#blockFor(key, { type: 'thinking', thinking: '', signature: '' });
    if (this.#open !== null) this.#open.proof = proof;
    if (thinking === '') return;
    block.thinking = `${block.thinking}${thinking}`;
    this.#delta(index, { type: 'thinking_delta', thinking });
  }

  /** Sets the signature of the open thinking block. */
  prove(proof: string): void {
    if (this.#open !== null) this.#open.proof = proof;
  }

  /** Writes a block that has all its content from the start, such as redacted thinking. */
  whole(key: string, block: JsonObject): void {
    this.#blockFor(key, block);
    this.#close();
  }

  /** Writes a call. `written` is the JSON text of its input. */
  call({ type = 'tool_use', id, name, input, written }: WrittenCall): void {
    const begun = { type, id, name, input: {}, caller: { type: 'direct' } };
    const { block, index } = this.#blockFor(id, begun);
    block.input = input;
    this.#delta(index, { type: 'input_json_delta', partial_json: written });
    this.#close();
  }

  /** Writes the end of the message. */
  end({ stopReason, usage }: MessageEnd): void {
    this.#close();
    const refusal = { type: 'refusal', category: null, explanation: null };
    const delta = {
      stop_reason: stopReason,
      stop_sequence: null,
      stop_details: stopReason === 'refusal' ? refusal : null,
      container: null,
    };
    Object.assign(this.#message, delta, { usage: { ...NO_USAGE, ...usage } });
    this.#write('message_delta', { delta, usage });
    this.#write('message_stop', {});
  }

  /** The open block with this key, or a new one. */
  #blockFor(key: string, begun: JsonObject): { block: JsonObject; index: number } {
    if (this.#open?.key === key) return { block: this.#open.block, index: this.#content.length - 1 };
    this.#close();
    const block = { ...begun };
    this.#open = { key, block, proof: null };
    const index = this.#content.push(block) - 1;
    this.#write('content_block_start', { index, content_block: begun });
    return { block, index };
  }

  #close(): void {
    if (this.#open === null) return;
    const { block, proof } = this.#open;
    const index = this.#content.length - 1;
    if (proof !== null) {
      block.signature = proof;
      this.#delta(index, { type: 'signature_delta', signature: proof });
    }
    this.#write('content_block_stop', { index });
    this.#open = null;
  }

  #delta(index: number, delta: JsonObject): void {
    this.#write('content_block_delta', { index, delta });
  }

  #write(type: string, fields: JsonObject): void {
    this.#written.push({ type, ...fields });
  }
}

const NO_USAGE: JsonObject = {
  input_tokens: 0,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
  cache_creation: null,
  output_tokens: 0,
  output_tokens_details: null,
  server_tool_use: null,
  service_tier: null,
};
