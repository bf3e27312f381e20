/**
 * What the AI SDK, the OpenAI Agents SDK and LangGraph call an option, by the words for it here. The first that begins
 * with a known name is the hint. Upper case and `_` do not matter: `recursion_limit` is `recursionLimit`.
 */
const NAMES_ELSEWHERE: Readonly<Record<string, string>> = {
  approval: 'needsApproval requireApproval',
  continues: 'configurable conversationId previousResponseId session sessionId threadId',
  description: 'handoffDescription toolDescription',
  finishers: 'onFinish outputGuardrails',
  instructions: 'prompt system systemMessage systemPrompt',
  input: 'inputSchema messages parameters prompt schema',
  labels: 'metadata tags',
  model: 'modelId modelName',
  name: 'toolName',
  output: 'experimental_output outputSchema outputType responseFormat',
  text: 'responseFormat',
  prepareTurn: 'prepareStep',
  reason: 'rejectionMessage',
  run: 'execute func handler',
  runContext: 'context contextSchema experimental_context',
  signal: 'abortSignal',
  sticky: 'alwaysApprove alwaysReject',
  store: 'checkpointer',
  timeoutMs: 'timeout',
  title: 'runName',
  toolConcurrency: 'maxConcurrency',
  tools: 'activeTools',
  'tools: [agent.asTool({ … })]': 'handoffs',
  'tools: [mcp({ … })]': 'mcpServers',
  turns: 'maxIterations maxSteps maxTurns recursionLimit stopWhen',
  maxTurns: 'maxSteps recursionLimit stopWhen',
  'limits: { turns }': 'maxIterations maxSteps maxTurns recursionLimit stopWhen',
  toolCalls: 'maxToolCalls',
  'limits: { toolCalls }': 'maxToolCalls',
  attempts: 'maxRetries',
  'retry: { attempts }': 'maxRetries',
  retries: 'maxRetries',
  max_output_tokens: 'maxTokens',
  maxOutputTokens: 'maxCompletionTokens maxTokens',
  settings: 'modelSettings',
  'settings: { maxOutputTokens }': 'maxCompletionTokens maxOutputTokens maxTokens',
  'settings: { parallelToolCalls }': 'parallelToolCalls',
  'settings: { reasoningEffort }': 'reasoningEffort',
  'settings: { temperature }': 'temperature',
  'settings: { topP }': 'topP',
  'providerOptions: { … }': 'frequencyPenalty presencePenalty',
};

/**
 * The known name that was meant by another: what it is called here if another library has the name, else the known name
 * with the fewest edits; `undefined` if none is near.
 */
export function findMeant(name: string, known: readonly string[]): string | undefined {
  const folded = fold(name);
  const hints = Object.entries(NAMES_ELSEWHERE).filter(([, names]) =>
    names.split(' ').map(fold).includes(folded),
  );
  const hint = hints.find(([here]) => known.includes(here.split(':', 1)[0] ?? ''));
  return hint?.[0] ?? findNearest(folded, known);
}

/** The known name with the fewest edits, if they are at most a third of the letters. */
function findNearest(folded: string, known: readonly string[]): string | undefined {
  let nearest: string | undefined;
  let fewest = Math.max(1, Math.floor(folded.length / 3)) + 1;
  for (const name of known) {
    const other = fold(name);
    const edits = countEdits(folded, other);
    if (edits < fewest && edits < Math.max(folded.length, other.length)) [nearest, fewest] = [name, edits];
  }
  return nearest;
}

function fold(name: string): string {
  return name.replaceAll(/[_-]/g, '').toLowerCase();
}

/** The fewest insertions, deletions, replacements and swaps of neighbours that turn one text into the other. */
function countEdits(one: string, other: string): number {
  let before: number[] = [];
  let last = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let i = 1; i <= one.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= other.length; j += 1) {
      const [left = 0, above = 0, corner = 0] = [row[j - 1], last[j], last[j - 1]];
      const edits = Math.min(left + 1, above + 1, corner + (one[i - 1] === other[j - 1] ? 0 : 1));
      const isSwap = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      row.push(isSwap ? Math.min(edits, (before[j - 2] ?? 0) + 1) : edits);
    }
    [before, last] = [last, row];
  }
  return last[other.length] ?? 0;
}
