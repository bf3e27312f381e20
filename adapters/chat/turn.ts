import type { Item, Part, ReasoningItem } from '../../protocol/item.ts';
import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import type { ModelRequest, ModelTurn, ToolCall } from '../../protocol/turn.ts';
import { CallIds } from '../turn/call-ids.ts';
import { nonEmpty } from '../turn/json-access.ts';
import { toolCall } from '../turn/tool-call.ts';
import type { Answer } from './answer.ts';
import { chunkText, type Stretch, thinkingText } from './content-chunks.ts';
import type { ChatDialect } from './dialect.ts';
import { finishReasonOf } from './finish-reason.ts';
import type { Kept } from './opaque-data.ts';
import type { Ending } from './stream.ts';

/** Builds the turn of a completed answer. */
export function turnOf(
  answer: Answer,
  ending: Ending,
  request: ModelRequest,
  dialect: ChatDialect,
  model: string,
): ModelTurn {
  const { toolCalls, items: calls } = callsOf(answer, request, dialect);
  const executed = answer.executed();
  const items = [
    ...executed.map(tool => executedItem(tool, dialect)),
    ...reasoningItems(answer, dialect),
    ...contentItems(answer, dialect),
    ...imageItems(answer),
    ...calls,
  ];
  return {
    text: answer.text,
    reasoning: items.flatMap(item => (item.type === 'reasoning' ? item.text : [])).join(''),
    toolCalls,
    finishReason: finishReasonOf(ending.finish, {
      calls: toolCalls.length > 0,
      providerCalls: executed.length > 0,
      refused: answer.refusal !== '',
    }),
    usage: ending.usage,
    model: ending.model ?? model,
    items,
  };
}

function callsOf(
  answer: Answer,
  request: ModelRequest,
  dialect: ChatDialect,
): { toolCalls: ToolCall[]; items: Item[] } {
  const ids = new CallIds(request.transcript);
  const toolCalls: ToolCall[] = [];
  const items: Item[] = [];
  for (const { id, name, arguments: text, extra } of answer.calls()) {
    const call = toolCall(ids.name(id, toolCalls.length), name, text);
    toolCalls.push(call);
    items.push({
      type: 'tool_call',
      callId: call.callId,
      name,
      arguments: call.arguments,
      ...opaqueOf(
        omitUndefined({ wireId: dialect.reasoning === 'details' && id !== null ? id : undefined, extra }),
        dialect,
      ),
    });
  }
  return { toolCalls, items };
}

/** Records a tool that the provider ran. It is not sent back. */
function executedItem(tool: JsonObject, dialect: ChatDialect): Item {
  const opaque = { provider: dialect.provider, data: { executed: tool } };
  return { type: 'provider_item', kind: nonEmpty(tool.type) ?? 'executed_tool', opaque };
}

function reasoningItems(answer: Answer, dialect: ChatDialect): ReasoningItem[] {
  const { reasoning: text, reasoningMember: member, details } = answer;
  const kept: Kept = {};
  if (dialect.reasoning === 'details' && details.all().length > 0) kept.details = details.all();
  if ((dialect.reasoning === 'member' || dialect.reasoning === 'required') && text !== '' && member) {
    kept.member = member;
  }
  if (text === '' && kept.details === undefined) return [];
  return [{ type: 'reasoning', text, ...opaqueOf(kept, dialect) }];
}

/** Returns the content in its order. Annotations belong to the last text. */
function contentItems(answer: Answer, dialect: ChatDialect): Item[] {
  const { stretches } = answer.content;
  const lastText = stretches.findLastIndex(stretch => stretch.type === 'text');
  const items = stretches.map((stretch, at): Item => {
    if (stretch.type === 'thinking') {
      const text = thinkingText(stretch.chunk);
      return { type: 'reasoning', text, ...opaqueOf({ chunk: stretch.chunk }, dialect) };
    }
    return messageItem(stretch, answer, at === lastText ? 'last' : 'earlier', dialect);
  });
  if ((answer.refusal !== '' || answer.extra !== undefined) && lastText === -1) {
    items.push(messageItem({ type: 'text', chunks: [] }, answer, 'last', dialect));
  }
  return items;
}

/** Generated images are only for display: these APIs accept no image in an assistant message. */
function imageItems({ images }: Answer): Item[] {
  if (images.size === 0) return [];
  const content = [...images].map((url): Part => ({ type: 'image', url }));
  return [{ type: 'message', role: 'assistant', content }];
}

function messageItem(
  { chunks }: Extract<Stretch, { type: 'text' }>,
  { annotations, refusal, extra }: Answer,
  place: 'last' | 'earlier',
  dialect: ChatDialect,
): Item {
  const text = chunks.map(chunkText).join('');
  const notes = place === 'last' && annotations.length > 0 ? { annotations: [...annotations] } : {};
  const content: Part[] = text === '' ? [] : [{ type: 'text', text, ...notes }];
  const kept: Kept = {
    ...(chunks.some(chunk => chunk.type !== 'text') ? { chunks } : {}),
    ...(place === 'last' && refusal !== '' ? { refusal } : {}),
    ...(place === 'last' && extra !== undefined ? { extra } : {}),
  };
  return { type: 'message', role: 'assistant', content, ...opaqueOf(kept, dialect) };
}

function opaqueOf(kept: Kept, dialect: ChatDialect): { opaque?: { provider: string; data: JsonObject } } {
  return Object.keys(kept).length === 0 ? {} : { opaque: { provider: dialect.provider, data: { ...kept } } };
}
