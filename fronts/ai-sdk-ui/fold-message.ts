import { omitUndefined } from '../../protocol/json.ts';
import { type ContentChunk, isToolChunk, type ToolChunk } from './chunk.ts';
import type { ToolPart, UIMessage, UIMessagePart } from './ui-message.ts';

/** Folds the chunks of journaled turns into a message, as `useChat` does. Each text comes in one piece. */
export function foldMessage(id: string, chunks: readonly ContentChunk[]): UIMessage {
  const parts: UIMessagePart[] = [];
  for (const chunk of chunks) {
    if (isToolChunk(chunk)) foldTool(parts, chunk);
    else
      switch (chunk.type) {
        case 'start-step':
          parts.push({ type: 'step-start' });
          break;
        case 'reset-step':
          parts.splice(lastStepAt(parts));
          break;
        case 'text-start':
          parts.push({ type: 'text', text: '', state: 'done' });
          break;
        case 'reasoning-start':
          parts.push({ type: 'reasoning', id: chunk.id, text: '', state: 'done' });
          break;
        case 'text-delta':
        case 'reasoning-delta': {
          const last = parts.at(-1);
          if (last !== undefined && 'text' in last) last.text += chunk.delta;
          break;
        }
        case 'source-url':
        case 'source-document':
        case 'file':
          parts.push({ ...chunk });
          break;
        case 'data-run': {
          const known = parts.find(part => part.type === 'data-run');
          if (known) known.data = chunk.data;
          else parts.push({ type: 'data-run', id: 'run', data: chunk.data });
          break;
        }
        case 'text-end':
        case 'reasoning-end':
        case 'finish-step':
        case 'data-progress':
      }
  }
  return { id, role: 'assistant', parts };
}

export function lastStepAt(parts: readonly { type: string }[]): number {
  return parts.findLastIndex(({ type }) => type === 'step-start') + 1;
}

function foldTool(parts: UIMessagePart[], chunk: ToolChunk): void {
  const at = parts.findLastIndex(part => 'toolCallId' in part && part.toolCallId === chunk.toolCallId);
  const found = parts[at];
  const part = nextPart(found !== undefined && 'toolCallId' in found ? found : undefined, chunk);
  if (part === undefined) return;
  if (at < ('toolName' in chunk ? lastStepAt(parts) : 0)) parts.push(part);
  else parts[at] = part;
}

function nextPart(found: ToolPart | undefined, chunk: ToolChunk): ToolPart | undefined {
  if ('toolName' in chunk) {
    if (chunk.type === 'tool-input-start') return undefined;
    const { toolCallId, toolName, input, providerExecuted } = chunk;
    const call = { type: `tool-${toolName}`, toolCallId } as const;
    if (chunk.type === 'tool-input-error')
      return { ...call, state: 'output-error', input, errorText: chunk.errorText };
    return { ...call, state: 'input-available', input, ...omitUndefined({ providerExecuted }) };
  }
  if (found === undefined) return undefined;
  const { type, toolCallId, input, providerExecuted, approval } = found;
  const facts = { input, ...omitUndefined({ providerExecuted }) };
  const granted = omitUndefined({ approval: approval?.approved === true ? approval : undefined });
  switch (chunk.type) {
    case 'tool-approval-request': {
      const request = { id: chunk.approvalId, ...omitUndefined({ requestReason: chunk.reason }) };
      return { type, toolCallId, state: 'approval-requested', ...facts, approval: request };
    }
    case 'tool-approval-response': {
      if (approval === undefined) return found;
      const { id, requestReason } = approval;
      const { approved, reason } = chunk;
      const decision = { id, ...omitUndefined({ requestReason }), approved, ...omitUndefined({ reason }) };
      return { type, toolCallId, state: 'approval-responded', ...facts, approval: decision };
    }
    case 'tool-output-available':
      return { type, toolCallId, state: 'output-available', ...facts, ...granted, output: chunk.output };
    case 'tool-output-error':
      return { type, toolCallId, state: 'output-error', ...facts, ...granted, errorText: chunk.errorText };
    case 'tool-output-denied':
      if (approval?.approved !== false) return found;
      return { type, toolCallId, state: 'output-denied', ...facts, approval };
    case 'tool-input-delta':
      return found;
  }
}
