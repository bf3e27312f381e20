import type { JsonValue } from '../../../protocol/json.ts';
import type { AskedQuestion, QuestionAnswer, Tool, ToolCallContext } from '../../../protocol/tool.ts';

export function createContext(signal: AbortSignal = new AbortController().signal): ToolCallContext {
  const ids = { key: 'key-1', callId: 'call-1', runId: 'run-1' };
  return { signal, ...ids, runContext: undefined, progress: () => {} };
}

type Keeping = ToolCallContext & Required<Pick<ToolCallContext, 'keep' | 'askPeople' | 'wait'>>;

/** A context that keeps and asks, as a call of a run has it. What happens with it is in the lists. */
export function createKeepingContext(answers: Readonly<Record<string, QuestionAnswer>> = {}) {
  const kept: JsonValue[] = [];
  const asked: AskedQuestion[] = [];
  const waits: number[] = [];
  const seen: JsonValue[] = [];
  const context: Keeping = {
    ...createContext(),
    progress: data => void seen.push(data),
    wait: async ms => void waits.push(ms),
    keep: async state => void kept.push(structuredClone(state)),
    askPeople: async question => {
      asked.push(question);
      const answer = answers[question.key];
      if (answer === undefined || question.fault !== undefined) throw new Error(`waits for ${question.key}`);
      return answer;
    },
  };
  return { context, kept, asked, waits, seen };
}

/** Runs a tool of the list as the engine does: validates the input first. */
export async function runTool(
  tools: readonly Tool[],
  name: string,
  input: JsonValue = {},
  context: ToolCallContext = createContext(),
): Promise<unknown> {
  const found = findTool(tools, name);
  const validation = await found.validate(input);
  if (!validation.valid) throw new Error(`invalid input: ${validation.message}`);
  return found.run?.(validation.value, context);
}

export function findTool(tools: readonly Tool[], name: string): Tool {
  const found = tools.find(tool => tool.name === name);
  if (!found) throw new Error(`no tool "${name}" among ${tools.map(tool => tool.name).join(', ')}`);
  return found;
}

export async function rejectionOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    value => {
      throw new Error(`expected a rejection, got ${JSON.stringify(value)}`);
    },
    error => error,
  );
}
