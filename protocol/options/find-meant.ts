/**
 * What the AI SDK, the OpenAI Agents SDK and LangGraph call what is an option here. The first entry that begins with a
 * known name is the hint. Upper case and `_` do not matter: `recursion_limit` is `recursionLimit`.
 */
const NAMES_ELSEWHERE: Readonly<Record<string, readonly string[]>> = {
  abortSignal: ['signal'],
  activeTools: ['tools'],
  alwaysApprove: ['sticky'],
  alwaysReject: ['sticky'],
  checkpointer: ['store'],
  configurable: ['continues'],
  context: ['runContext'],
  contextSchema: ['runContext'],
  conversationId: ['continues'],
  execute: ['run'],
  func: ['run'],
  experimental_context: ['runContext'],
  experimental_output: ['output'],
  frequencyPenalty: ['providerOptions: { … }'],
  handler: ['run'],
  handoffDescription: ['description'],
  handoffs: ['tools: [agent.asTool({ … })]'],
  inputSchema: ['input'],
  maxCompletionTokens: ['maxOutputTokens', 'settings: { maxOutputTokens }'],
  maxConcurrency: ['toolConcurrency'],
  maxIterations: ['turns', 'limits: { turns }'],
  maxOutputTokens: ['settings: { maxOutputTokens }'],
  maxRetries: ['attempts', 'retry: { attempts }', 'retries'],
  maxSteps: ['turns', 'maxTurns', 'limits: { turns }'],
  maxTokens: ['max_output_tokens', 'maxOutputTokens', 'settings: { maxOutputTokens }'],
  maxToolCalls: ['toolCalls', 'limits: { toolCalls }'],
  maxTurns: ['turns', 'limits: { turns }'],
  mcpServers: ['tools: [mcp({ … })]'],
  messages: ['input'],
  metadata: ['labels'],
  modelId: ['model'],
  modelName: ['model'],
  modelSettings: ['settings'],
  needsApproval: ['approval'],
  onFinish: ['finishers'],
  outputGuardrails: ['finishers'],
  outputSchema: ['output'],
  outputType: ['output'],
  parallelToolCalls: ['settings: { parallelToolCalls }'],
  parameters: ['input'],
  prepareStep: ['prepareTurn'],
  presencePenalty: ['providerOptions: { … }'],
  previousResponseId: ['continues'],
  prompt: ['instructions', 'input'],
  reasoningEffort: ['settings: { reasoningEffort }'],
  recursionLimit: ['turns', 'maxTurns', 'limits: { turns }'],
  rejectionMessage: ['reason'],
  requireApproval: ['approval'],
  responseFormat: ['output', 'text'],
  runName: ['title'],
  schema: ['input'],
  session: ['continues'],
  sessionId: ['continues'],
  stopWhen: ['turns', 'maxTurns', 'limits: { turns }'],
  system: ['instructions'],
  systemMessage: ['instructions'],
  systemPrompt: ['instructions'],
  tags: ['labels'],
  temperature: ['settings: { temperature }'],
  threadId: ['continues'],
  timeout: ['timeoutMs'],
  toolDescription: ['description'],
  toolName: ['name'],
  topP: ['settings: { topP }'],
};

/**
 * The known name that was meant by another: what it is called here if another library has the name, else the known name
 * with the fewest edits; `undefined` if none is near.
 */
export function findMeant(name: string, known: readonly string[]): string | undefined {
  const folded = fold(name);
  const [, hints = []] = Object.entries(NAMES_ELSEWHERE).find(([other]) => fold(other) === folded) ?? [];
  return hints.find(hint => known.includes(hint.split(':', 1)[0] ?? '')) ?? findNearest(folded, known);
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
