// Anthropic's Messages API: transcripts as messages, requests with thinking and output schemas, and their answers.

import type { SetupChange } from '../../protocol/adapter.ts';
import { hashText } from '../../protocol/content/hash-text.ts';
import { textOfParts } from '../../protocol/content/read-content.ts';
import type {
  Item,
  MessageItem,
  Opaque,
  Part,
  ProviderItem,
  ToolCallItem,
  ToolResultItem,
} from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, omitUndefined } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import { partsOfResult, readDataURL, textOfBase64 } from '../turn/content.ts';
import { GrowingInput, type Input } from '../turn/growing-input.ts';
import { jsonIn, nonEmpty, objectOf, objectsOf, textIn } from '../turn/json-access.ts';
import { resultsByCall } from '../turn/tool-calls.ts';
import { changedInstructions } from '../turn/transcript.ts';
import type { ModelFamily } from './model-family.ts';

export function growingConversation(reads: Reads): (transcript: readonly Item[]) => Input {
  const growing = new GrowingInput({
    make(items, { hasPrevious }) {
      const builder = new ConversationBuilder(items, { ...reads, hasPrevious });
      for (const item of items) builder.add(item);
      return builder.end();
    },
    namesOf(item) {
      const block = 'opaque' in item ? keptBlock(item.opaque) : undefined;
      const ids = [block?.id, block?.tool_use_id, 'callId' in item ? item.callId : undefined];
      const names = ids.flatMap(id => nonEmpty(id) ?? []);
      return names.every(name => legalCallId(name) === name && !name.endsWith('_')) ? names : undefined;
    },
    joins: (last, next) => last.role === next.role || (last.role === 'system' && next.role === 'user'),
  });
  return transcript => growing.of(fromSummary(transcript));
}

/**
 * The transcript without what its last signed summary stands for, which the API refuses before the summary. A summary
 * that is not signed stays behind it. See
 * https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand#continue-from-the-summary.
 */
function fromSummary(transcript: readonly Item[]): readonly Item[] {
  const at = transcript.findLastIndex(
    item => item.type === 'provider_item' && isSummary(keptBlock(item.opaque)),
  );
  const opening = transcript.findIndex(
    item => item.type !== 'message' || !/^system$|^developer$/.test(item.role),
  );
  return at <= opening ? transcript : [...transcript.slice(0, opening), ...transcript.slice(at)];
}

function isSummary(block: JsonObject | undefined): boolean {
  return block?.type === 'compaction' && nonEmpty(block.signature) !== undefined && block.content !== null;
}

/** What the model reads that others do not. */
type Reads = Pick<ModelFamily, 'midConversationSystem' | 'toolSearch'>;

type Message = { role: 'user' | 'assistant' | 'system'; content: JsonObject[] };

/**
 * Builds messages that the API accepts, in any order of the transcript.
 *
 * M1 The model's output is sent back unchanged, block by block; consecutive assistant turns become one
 *    message.
 * M2 Every `tool_use` has one result at the beginning of the next message; a call without a result gets an
 *    error result. A result without a call is omitted.
 * M3 Only signed thinking of this provider is sent back, and never as the last block of a message.
 * M4 No text and no message is empty.
 * M5 An instruction in the conversation is a message of the role `system` only directly after one of the user and before
 *    one of the assistant, and only for models that read it there; elsewhere it is a framed text of the user.
 */
class ConversationBuilder {
  readonly #system: string[] = [];
  readonly #messages: Message[] = [];
  readonly #results: ReadonlyMap<string, ToolResultItem[]>;
  readonly #ids = new Set<string>();
  readonly #reads: Reads & { hasPrevious: boolean };
  #open: { callId: string; result: JsonObject }[] = [];
  #instruction: Message | undefined;

  constructor(transcript: readonly Item[], reads: Reads & { hasPrevious: boolean }) {
    this.#reads = reads;
    this.#results = resultsByCall(transcript);
  }

  add(item: Item): void {
    switch (item.type) {
      case 'message':
        if (item.role === 'assistant') this.#addAssistant(item);
        else this.#addInput(item);
        return;
      case 'reasoning':
        this.#addThinking(keptBlock(item.opaque));
        return;
      case 'tool_call':
        this.#addCall(item);
        return;
      case 'tool_result':
        if (this.#open.some(({ callId }) => callId === item.callId)) this.#addResults();
        return;
      case 'provider_item':
        if (item.kind === 'setup') this.#addSetup(keptBlock(item.opaque));
        else this.#addProviderBlock(keptBlock(item.opaque));
        return;
      case 'approval_request':
      case 'approval_response':
      case 'tool_list':
        return;
    }
  }

  end(): Input {
    this.#endTurn();
    return { opening: this.#system, input: this.#messages };
  }

  #addInput({ role, content }: MessageItem): void {
    if (role === 'user') {
      this.#pushUser(userContent(content));
      return;
    }
    const text = content.map(part => (part.type === 'text' ? part.text : '')).join('');
    if (text === '') return;
    if (this.#messages.length === 0 && !this.#reads.hasPrevious) this.#system.push(text);
    else this.#pushInstruction(text);
  }

  #pushInstruction(text: string): void {
    this.#endTurn();
    const last = this.#messages.at(-1);
    if (!this.#reads.midConversationSystem || last === undefined || last.role === 'assistant')
      return this.#pushUser([framed(text)]);
    if (last.role === 'user') {
      this.#instruction = { role: 'system', content: [] };
      this.#messages.push(this.#instruction);
    }
    this.#messages.at(-1)?.content.push({ type: 'text', text });
  }

  /** Adds an assistant message. If its text was edited since, the original block is not used. */
  #addAssistant(item: MessageItem): void {
    const block = keptBlock(item.opaque);
    const text = textOf(item);
    if (block?.type === 'text' && block.text === text) this.#push(text === '' ? undefined : block);
    else if (block?.type === 'tool_use' && JSON.stringify(block.input) === text) {
      this.#pushCall(block, 'The answer was received.');
    } else {
      for (const part of item.content) {
        if (part.type === 'text' && part.text !== '') this.#push({ type: 'text', text: part.text });
      }
    }
  }

  #addThinking(block: JsonObject | undefined): void {
    if (signatureIn(block)?.trim()) this.#push(block);
  }

  /** Adds a block of the provider's own tools. A result is only added together with its call. */
  #addProviderBlock(block: JsonObject | undefined): void {
    if (!block) return;
    if (block.type === 'tool_use') {
      this.#pushCall(block, 'Not used: other tools were called with it. Call it again when they are done.');
      return;
    }
    const use = nonEmpty(block.tool_use_id);
    if (use === undefined || this.#ids.has(use)) this.#push(block);
  }

  #addSetup(message: JsonObject | undefined): void {
    if (!message) return;
    this.#endTurn();
    this.#messages.push({ role: 'system', content: objectsOf(message.content) });
  }

  #addCall(item: ToolCallItem): void {
    const result = this.#results.get(item.callId)?.shift();
    const block = this.#uniqueCall({
      ...keptBlock(item.opaque),
      type: 'tool_use',
      id: legalCallId(item.callId),
      name: legalName(item.name),
      input: inputOf(item),
    });
    const id = textIn(block.id);
    const answer = result
      ? resultBlock(id, result, this.#reads)
      : failure(id, 'There is no result for this call.');
    this.#push(block);
    const { toolset_name } = block;
    this.#open.push({ callId: item.callId, result: { ...answer, ...omitUndefined({ toolset_name }) } });
  }

  #pushCall(kept: JsonObject, answer: string): void {
    const block = this.#uniqueCall({ ...kept, input: objectOf(kept.input) });
    const id = textIn(block.id);
    this.#push(block);
    this.#open.push({ callId: id, result: { type: 'tool_result', tool_use_id: id, content: answer } });
  }

  #uniqueCall(block: JsonObject): JsonObject {
    let id = legalCallId(textIn(block.id));
    while (this.#ids.has(id)) id = `${id}_`;
    return id === block.id ? block : { ...block, id };
  }

  #push(block: JsonObject | undefined): void {
    if (!block) return;
    const id = nonEmpty(block.id);
    if (id !== undefined) this.#ids.add(id);
    const last = this.#messages.at(-1);
    if (last?.role === 'assistant') last.content.push(block);
    else this.#messages.push({ role: 'assistant', content: [block] });
  }

  #pushUser(blocks: readonly JsonObject[]): void {
    if (blocks.length === 0) return;
    this.#endTurn();
    const instruction = this.#instruction;
    if (instruction !== undefined && instruction === this.#messages.at(-1)) {
      this.#messages.pop();
      this.#messages.at(-1)?.content.push(...instruction.content.map(({ text }) => framed(textIn(text))));
    }
    const last = this.#messages.at(-1);
    if (last?.role === 'user') last.content.push(...blocks);
    else this.#messages.push({ role: 'user', content: [...blocks] });
  }

  #endTurn(): void {
    this.#addResults();
    this.#dropLastThinking();
  }

  #addResults(): void {
    if (this.#open.length === 0) return;
    this.#messages.push({ role: 'user', content: this.#open.map(({ result }) => result) });
    this.#open = [];
  }

  #dropLastThinking(): void {
    const last = this.#messages.at(-1);
    if (last?.role !== 'assistant') return;
    while (/thinking$/.test(textIn(last.content.at(-1)?.type))) last.content.pop();
    if (last.content.length === 0) this.#messages.pop();
  }
}

/** Arguments that are not an object cannot be sent back; the result of such a call quotes them. */
function inputOf({ arguments: text }: ToolCallItem): JsonObject {
  const input = jsonIn(text);
  return isJsonObject(input) ? input : {};
}

function framed(instruction: string): JsonObject {
  return { type: 'text', text: `<system>\n${instruction}\n</system>` };
}

function resultBlock(id: string, result: ToolResultItem, { toolSearch }: Reads): JsonObject {
  const references = toolSearch ? objectsOf(result.output) : [];
  if (references.length > 0 && references.every(({ type }) => type === 'tool_reference'))
    return { type: 'tool_result', tool_use_id: id, content: references };
  const parts = partsOfResult(result, readsMedia);
  const text = textOfParts(parts);
  if (result.isError) return failure(id, text);
  const hasMedia = parts.some(part => part.type !== 'text');
  return { type: 'tool_result', tool_use_id: id, content: hasMedia ? userContent(parts) : text };
}

/** The API refuses an error without text. */
function failure(id: string, text: string): JsonObject {
  return { type: 'tool_result', tool_use_id: id, content: text || 'The tool failed.', is_error: true };
}

/** The content blocks of a user message, without empty texts, which the API refuses. */
export function userContent(parts: readonly Part[]): JsonObject[] {
  return parts.filter(part => part.type !== 'text' || part.text !== '').map(userBlock);
}

function userBlock(part: Part): JsonObject {
  switch (part.type) {
    case 'text':
      return { type: 'text', text: part.text };
    case 'image':
      return { type: 'image', source: binarySource(readURL(part.url)) };
    case 'file':
      return fileBlock(part);
  }
}

/** Text files are sent as text, PDFs as binary. The API refuses other types with an error that names them. */
function fileBlock(part: Extract<Part, { type: 'file' }>): JsonObject {
  const file = readURL(part.url, part.mediaType);
  if (file.mediaType.startsWith('image/')) return { type: 'image', source: binarySource(file) };
  const source: JsonObject =
    file.base64 !== undefined && isText(file.mediaType)
      ? { type: 'text', media_type: 'text/plain', data: textOfBase64(file.base64) }
      : binarySource(file);
  return { type: 'document', source, ...omitUndefined({ title: part.name }) };
}

type Referenced = { url: string; mediaType: string; base64?: string };

function readURL(url: string, mediaType = ''): Referenced {
  const data = readDataURL(url);
  if (data === undefined) return { url, mediaType };
  return { url, mediaType: mediaType || data.mediaType || 'text/plain', base64: data.base64 };
}

function binarySource({ url, mediaType, base64 }: Referenced): JsonObject {
  return base64 === undefined
    ? { type: 'url', url }
    : { type: 'base64', media_type: mediaType, data: base64 };
}

/** Whether the API takes this media type: https://docs.claude.com/en/docs/build-with-claude/vision and …/pdf-support. */
function readsMedia(mediaType: string): boolean {
  return (
    /^image\/(?:jpeg|png|gif|webp|\*)$/.test(mediaType) ||
    mediaType === 'application/pdf' ||
    mediaType === '' ||
    isText(mediaType)
  );
}

function isText(mediaType: string): boolean {
  return /^text\/|^application\/(?:json|xml|yaml|x-yaml)\b|\+(?:json|xml)\b/.test(mediaType);
}

/**
 * A change as a system message between others; `tools` are the declarations of added ones. Source:
 * https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages.
 */
export function setupItem(
  { instructions, restored = [], removed = [] }: SetupChange,
  tools: readonly JsonObject[],
): ProviderItem {
  const reference = (name: string): JsonObject => ({ type: 'tool_reference', name: legalName(name) });
  const content: JsonObject[] = [
    ...(instructions === undefined ? [] : [{ type: 'text', text: changedInstructions(instructions) }]),
    ...tools.map(definition => ({ type: 'tool_addition', tool: { type: 'tool_definition', definition } })),
    ...restored.map(name => ({ type: 'tool_addition', tool: reference(name) })),
    ...removed.map(name => ({ type: 'tool_removal', tool: reference(name) })),
  ];
  return { type: 'provider_item', kind: 'setup', opaque: keepBlock({ role: 'system', content }) };
}

export const ANTHROPIC = 'anthropic';

/** What a block needs to go back; `container` is where the code runs that made it. */
export function keepBlock(block: JsonObject, container?: string): Opaque {
  return { provider: ANTHROPIC, data: { block, ...omitUndefined({ container }) } };
}

/** What shows the provider that a block of thinking is its own, different for each block. */
export function signatureIn(block: JsonObject | undefined): string | undefined {
  return nonEmpty(block?.type === 'redacted_thinking' ? block.data : block?.signature);
}

/** The container whose code waits for the results at the end of the transcript: the API requires its id. */
export function waitingContainer(transcript: readonly Item[]): string | undefined {
  const answered = new Set<string>();
  for (const item of transcript.toReversed()) {
    if (item.type === 'tool_result') answered.add(item.callId);
    else if (item.type !== 'tool_call' || !answered.has(item.callId)) return undefined;
    else if (/^code_execution/.test(textIn(objectOf(keptBlock(item.opaque)?.caller).type))) {
      return nonEmpty(objectOf(item.opaque?.data).container);
    }
  }
  return undefined;
}

export function keptBlock(opaque: Opaque | undefined): JsonObject | undefined {
  if (opaque?.provider !== ANTHROPIC || !isJsonObject(opaque.data)) return undefined;
  return isJsonObject(opaque.data.block) ? opaque.data.block : undefined;
}

/** Returns the call id if the API accepts it (`^[a-zA-Z0-9_-]+$`), else an id derived from it. */
function legalCallId(callId: string): string {
  if (/^[a-zA-Z0-9_-]+$/.test(callId)) return callId;
  const digest = hashText(callId).slice(0, 16);
  return `${callId.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, 40)}_${digest}`;
}

function legalName(name: string): string {
  return name.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, 128) || 'unknown';
}
