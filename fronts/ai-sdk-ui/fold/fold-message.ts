import { isJsonObject, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import {
  type ContentChunk,
  isToolPart,
  type ToolChunk,
  type ToolPart,
  type UIMessage,
  type UIMessagePart,
} from '../chunk.ts';

/** Folds chunks into a message, as `useChat` does. */
export function foldMessage(id: string, chunks: readonly ContentChunk[]): UIMessage {
  const parts: UIMessagePart[] = [];
  const texts = new Map<string, Extract<UIMessagePart, { type: 'text' | 'reasoning' }>>();
  const inputs = new Map<string, string>();
  for (const chunk of chunks) {
    switch (chunk.type) {
      case 'start-step':
        parts.push({ type: 'step-start' });
        break;
      case 'finish-step':
        break;
      case 'reset-step':
        parts.splice(parts.findLastIndex(({ type }) => type === 'step-start') + 1);
        break;
      case 'text-start':
      case 'reasoning-start': {
        const part =
          chunk.type === 'text-start'
            ? ({ type: 'text', text: '', state: 'streaming' } as const)
            : ({ type: 'reasoning', id: chunk.id, text: '', state: 'streaming' } as const);
        const begun = { ...part };
        texts.set(chunk.id, begun);
        parts.push(begun);
        break;
      }
      case 'text-delta':
      case 'reasoning-delta': {
        const part = texts.get(chunk.id);
        if (part) part.text += chunk.delta;
        break;
      }
      case 'text-end':
      case 'reasoning-end': {
        const part = texts.get(chunk.id);
        if (part) part.state = 'done';
        break;
      }
      case 'source-url':
      case 'source-document':
      case 'file':
        parts.push({ ...chunk });
        break;
      case 'data-run': {
        const known = parts.find(part => part.type === 'data-run' && part.id === chunk.id);
        if (known?.type === 'data-run') known.data = chunk.data;
        else parts.push({ ...chunk });
        break;
      }
      case 'data-progress':
        break;
      default:
        foldTool(parts, chunk, inputs);
    }
  }
  return { id, role: 'assistant', parts };
}

function foldTool(parts: UIMessagePart[], chunk: ToolChunk, inputs: Map<string, string>): void {
  const { toolCallId } = chunk;
  const begin = (toolName: string): ToolPart => {
    const step = parts.findLastIndex(({ type }) => type === 'step-start');
    const known = parts.slice(step + 1).find(part => isToolPart(part) && part.toolCallId === toolCallId);
    if (known !== undefined && isToolPart(known)) return known;
    const part: ToolPart = { type: `tool-${toolName}`, toolCallId, state: 'input-streaming' };
    parts.push(part);
    return part;
  };
  const found = parts.findLast(
    (part): part is ToolPart => isToolPart(part) && part.toolCallId === toolCallId,
  );
  switch (chunk.type) {
    case 'tool-input-start':
      begin(chunk.toolName);
      inputs.set(toolCallId, '');
      return;
    case 'tool-input-delta':
      inputs.set(toolCallId, (inputs.get(toolCallId) ?? '') + chunk.inputTextDelta);
      if (found) found.rawInput = inputs.get(toolCallId) ?? '';
      return;
    case 'tool-input-available':
      setPart(begin(chunk.toolName), { state: 'input-available', input: chunk.input });
      if (chunk.providerExecuted === true) begin(chunk.toolName).providerExecuted = true;
      return;
    case 'tool-input-error':
      setPart(begin(chunk.toolName), {
        state: 'output-error',
        input: chunk.input,
        errorText: chunk.errorText,
      });
      return;
    case 'tool-approval-request': {
      if (found === undefined) return;
      found.state = 'approval-requested';
      const { approvalId: id, reason } = chunk;
      found.approval = reason === undefined ? { id } : { id, requestReason: reason };
      return;
    }
    case 'tool-approval-response': {
      if (found?.approval === undefined) return;
      found.state = 'approval-responded';
      const { approved, reason } = chunk;
      found.approval = { ...found.approval, approved, ...omitUndefined({ reason }) };
      return;
    }
    case 'tool-output-available':
      if (found) setOutcome(found, { state: 'output-available', output: chunk.output });
      return;
    case 'tool-output-error':
      if (found) setOutcome(found, { state: 'output-error', errorText: chunk.errorText });
      return;
    case 'tool-output-denied':
      if (found) found.state = 'output-denied';
  }
}

type Change = { state: ToolPart['state']; input?: JsonValue; output?: JsonValue; errorText?: string };

function setPart(part: ToolPart, change: Change): void {
  for (const name of ['output', 'errorText', 'rawInput'] as const) delete part[name];
  Object.assign(part, change);
}

function setOutcome(part: ToolPart, change: Change): void {
  const { input } = part;
  setPart(part, input === undefined ? change : { input, ...change });
}

/** Returns the tool parts of an untrusted message. */
export function toolPartsOf(parts: readonly unknown[]): ToolPart[] {
  return parts.filter(
    (part): part is ToolPart =>
      isJsonObject(part) &&
      typeof part.type === 'string' &&
      isToolPart({ type: part.type }) &&
      typeof part.toolCallId === 'string',
  );
}
