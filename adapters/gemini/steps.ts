// Google's Interactions API: transcripts as steps, and requests. Steps of the model go back unchanged.
// Source: the types of @google/genai 3.1.0, and https://ai.google.dev/gemini-api/docs/interactions

import { type Media, mediaTypeOf, textOfParts } from '../../protocol/content/read-content.ts';
import type { Item, MessageItem, Opaque, Part, ReasoningItem, ToolCallItem } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import type { ModelRequest, Settings, ToolChoice, ToolDefinition } from '../../protocol/turn.ts';
import { convertOnce } from '../http/body-text.ts';
import { mediaOfParts, partsOfResult } from '../turn/content.ts';
import { GrowingInput } from '../turn/growing-input.ts';
import { arrayOf, mergeOptions, nonEmpty, objectOf, objectsOf, textIn } from '../turn/json-access.ts';
import { argumentsObject, resultsByCall } from '../turn/tool-calls.ts';
import { closesTurn, isControl, missingResult } from '../turn/transcript.ts';
import {
  generationOf,
  isResponseMedia,
  levelOf,
  mediaSource,
  openingOf,
  readsMedia,
  schemaInput,
  systemOf,
} from './request.ts';

export const INTERACTIONS = 'gemini-interactions';

/**
 * Converts items to steps. Each item is a step of its own, so that what a request gains never changes what it had.
 *
 * S1 The results of a turn's calls follow the turn, in call order, each call with exactly one. Others are omitted.
 * S2 The steps of the model before `from` are omitted: the provider has them.
 */
function stepsOf(items: readonly Item[], model: string, from = 0): JsonObject[] {
  const results = resultsByCall(items);
  const steps: JsonObject[] = [];
  let calls: ToolCallItem[] = [];
  const answer = () => {
    const media: Media[] = [];
    for (const call of calls) {
      const result = results.get(call.callId)?.shift() ?? missingResult(call.callId);
      const parts = partsOfResult(result, readsMedia);
      const inside = parts.filter(part => part.type === 'text' || isInside(part, model));
      steps.push({
        type: 'function_result',
        call_id: call.callId,
        name: call.name,
        result: mediaOfParts(inside).length > 0 ? inside.map(contentOf) : textOfParts(parts),
        ...(result.isError ? { is_error: true } : {}),
      });
      media.push(...mediaOfParts(parts).filter(part => !inside.includes(part)));
    }
    if (media.length > 0) steps.push({ type: 'user_input', content: media.map(contentOf) });
    calls = [];
  };
  for (const [at, item] of items.entries()) {
    if (closesTurn(item)) answer();
    if (item.type === 'tool_call') calls.push(item);
    const step = at < from ? undefined : stepOf(item);
    if (step) steps.push(step);
  }
  answer();
  return steps;
}

/** Older models than Gemini 3 read images and files of a result in the input after it. */
function isInside(part: Media, model: string): boolean {
  return generationOf(model) >= 3 && isResponseMedia(mediaTypeOf(part));
}

function stepOf(item: Item): JsonObject | undefined {
  switch (item.type) {
    case 'message':
      return item.role === 'assistant' ? outputStep(item) : inputStep(item);
    case 'reasoning':
      return thoughtStep(item);
    case 'tool_call': {
      const { callId: id, name, arguments: written } = item;
      return { type: 'function_call', id, name, arguments: argumentsObject(written), ...keptBy(item).more };
    }
    case 'provider_item':
      return keptBy(item).step;
    default:
      return undefined;
  }
}

function inputStep({ content }: MessageItem): JsonObject | undefined {
  const parts = content.filter(part => part.type !== 'text' || part.text !== '');
  return parts.length === 0 ? undefined : { type: 'user_input', content: parts.map(contentOf) };
}

/** Images and files from other providers' models are omitted. */
function outputStep(item: MessageItem): JsonObject | undefined {
  const { parts: kept } = keptBy(item);
  const content = item.content.flatMap((part, at) => {
    if (part.type === 'text' ? part.text === '' : kept === undefined) return [];
    const { annotations, ...more } = kept?.[at] ?? {};
    const content = { ...contentOf(part), ...more };
    const places = objectsOf(annotations);
    if (places.length === 0) return [content];
    const placed = arrayOf(content.annotations).map((one, n) =>
      isJsonObject(one) ? { ...one, ...places[n] } : one,
    );
    return [{ ...content, annotations: placed }];
  });
  return content.length === 0 ? undefined : { type: 'model_output', content };
}

/** A thought goes back as it came, or, if its summary was edited, not at all. */
function thoughtStep(item: ReasoningItem): JsonObject | undefined {
  const { step } = keptBy(item);
  return step && summaryOf(step) === item.text ? step : undefined;
}

export function summaryOf({ summary }: JsonObject): string {
  return objectsOf(summary)
    .map(part => textIn(part.text))
    .join('');
}

function contentOf(part: Part): JsonObject {
  if (part.type === 'text') {
    const { type, text, annotations } = part;
    return { type, text, ...omitUndefined({ annotations }) };
  }
  const { mimeType, data } = mediaSource(part);
  const source: JsonObject = data === undefined ? { uri: part.url } : { data };
  return { type: contentType(part, mimeType), ...source, ...omitUndefined({ mime_type: mimeType }) };
}

function contentType({ type, url }: Media, mimeType: string | undefined): string {
  if (type === 'image') return type;
  if (/^https?:\/\/(?:www\.)?(?:youtube\.com|youtu\.be)\//.test(url)) return 'video';
  return /^(image|audio|video)\//.exec(mimeType ?? '')?.[1] ?? 'document';
}

/**
 * The provider data that an item keeps in its `opaque.data`: the full `step` of a thought or of a tool that the provider
 * ran; what a call has beside its portable members (`more`), such as a signature; the same of each part of a message
 * (`parts`), also if there is nothing more: it tells that the provider wrote the images and files of the message. The
 * `annotations` of a part are the places that Google gave them.
 */
type Kept = { step?: JsonObject; more?: JsonObject; parts?: JsonObject[] };

export function keepStep(data: Kept): Opaque {
  return { provider: INTERACTIONS, data };
}

function keptBy(item: Item): Kept {
  if (!('opaque' in item) || item.opaque?.provider !== INTERACTIONS) return {};
  const { step, more, parts } = objectOf(item.opaque.data);
  return omitUndefined({
    step: isJsonObject(step) ? step : undefined,
    more: isJsonObject(more) ? more : undefined,
    parts: Array.isArray(parts) ? parts.map(objectOf) : undefined,
  });
}

/** What continues an interaction: its id if it is stored, and a token if the provider paused within its turn. */
export type Continuation = { id?: string; token?: string };

export function continuationIn(value: JsonValue | undefined): Continuation {
  const { id, token } = typeof value === 'string' ? { id: value } : objectOf(value);
  return omitUndefined({ id: nonEmpty(id), token: nonEmpty(token) });
}

/**
 * Returns a function that builds request bodies. A body continues from `request.continuation`, if interactions are
 * stored, and then has only the input after the last turn. Instructions, tools and settings are sent each time, because
 * an interaction does not inherit them.
 */
export function interactionBody(
  model: string,
  { store, providerOptions: shared = {} }: { store: boolean; providerOptions: JsonObject | undefined },
): (request: ModelRequest, mode: { stream: boolean }) => JsonObject {
  const growing = new GrowingInput({
    make(items, { hasPrevious }) {
      if (hasPrevious) return { opening: [], input: stepsOf(items, model) };
      const opening = openingOf(items);
      return {
        opening: opening.map(textOf),
        input: startingWithInput(stepsOf(items.slice(opening.length), model)),
      };
    },
    namesOf: item => ('callId' in item ? [item.callId] : []),
  });
  return (request, { stream }) => {
    const { tools, transcript } = request;
    const options = mergeOptions(shared, request.providerOptions);
    const isStored = (options.store ?? store) !== false;
    const inputOf = (items: readonly Item[]) => growing.of(items).input;
    const added = addedTo(request, { model, isStored, inputOf });
    const { opening, input } = added
      ? { opening: openingOf(transcript).map(textOf), input: undefined }
      : growing.of(transcript);
    const hasTools = tools.length > 0 || arrayOf(options.tools).length > 0;
    const { system, schema } = systemOf(request, opening, { model, hasTools });
    const settings: JsonObject = {
      ...settingsInput(request.settings, model),
      ...(tools.length > 0 ? { tool_choice: choiceInput(request.toolChoice) } : {}),
    };
    const own: JsonObject = {
      model,
      ...(system === '' ? {} : { system_instruction: system }),
      ...(added ?? omitUndefined({ input })),
      ...(tools.length > 0 ? { tools: toolInputs(tools) } : {}),
      ...(schema ? { response_format: { type: 'text', mime_type: 'application/json', schema } } : {}),
      ...(Object.keys(settings).length > 0 ? { generation_config: settings } : {}),
      ...(stream ? { stream } : {}),
      ...(isStored ? {} : { store: false }),
    };
    return mergeOptions(own, options);
  };
}

/**
 * The members that continue an interaction; `undefined` if there is none, or nothing to continue it with. A paused turn
 * that is not stored is resumed with the input that it had.
 */
function addedTo(
  { continuation, transcript }: ModelRequest,
  about: { model: string; isStored: boolean; inputOf(items: readonly Item[]): JsonObject[] },
): JsonObject | undefined {
  const { id, token } = continuationIn(continuation);
  const from = transcript.findLastIndex(item => !isControl(item) && !closesTurn(item)) + 1;
  if ((id ?? token) === undefined || from === 0) return undefined;
  const begin = transcript.findLastIndex((item, at) => at < from && closesTurn(item)) + 1;
  const isKept = about.isStored && id !== undefined;
  const input = stepsOf(transcript.slice(begin), about.model, from - begin);
  if (input.length > 0) return isKept ? { previous_interaction_id: id, input } : undefined;
  if (token === undefined) return undefined;
  return isKept
    ? { previous_interaction_id: id, continuation_token: token }
    : { input: about.inputOf(transcript.slice(0, begin)), continuation_token: token };
}

/** As for `generateContent`, whose models refuse a conversation that does not begin with the user. */
function startingWithInput(steps: JsonObject[]): JsonObject[] {
  const empty = { type: 'user_input', content: [{ type: 'text', text: '' }] };
  return steps[0]?.type === 'user_input' ? steps : [empty, ...steps];
}

const MODES = { auto: 'auto', required: 'any', none: 'none' } as const;

function choiceInput(choice: ToolChoice): JsonValue {
  return typeof choice === 'string'
    ? MODES[choice]
    : { allowed_tools: { mode: 'any', tools: [choice.name] } };
}

const toolInputs = convertOnce<ToolDefinition>(tools =>
  tools.map(({ name, description, inputSchema }) => ({
    type: 'function',
    name,
    description,
    parameters: schemaInput(inputSchema),
  })),
);

function settingsInput(settings: Settings, model: string): JsonObject {
  const { temperature, topP, maxOutputTokens, reasoningEffort } = settings;
  return omitUndefined({
    temperature,
    top_p: topP,
    max_output_tokens: maxOutputTokens,
    thinking_level: reasoningEffort === undefined ? undefined : thinkingLevel(reasoningEffort, model),
  });
}

/** The API has no budgets of tokens: a number is the level whose budget would hold it, or is left to the model. */
function thinkingLevel(effort: string, model: string): string | undefined {
  if (!/^-?\d+$/.test(effort)) return levelOf(effort, model);
  const budget = Number(effort);
  if (budget < 0) return undefined;
  if (budget <= 1_024) return levelOf(budget === 0 ? 'none' : 'low', model);
  return budget <= 8_192 ? 'medium' : 'high';
}
