/** What failed: the run, or a tool. `message` may have secrets of the server. */
export type UIError = { type: 'run' | 'tool'; code: string; message: string; toolName?: string };

/** Makes the text that a page shows for a failure. */
export type DescribeError = (error: UIError) => string;

/** The default texts for failures: they say what failed, and nothing that a provider or a tool has said. */
export function describeSafely({ type, code, toolName }: UIError): string {
  if (type === 'tool') return `The call of ${toolName ?? 'a tool'} failed.`;
  return `The run failed: ${/^[\w-]{1,60}$/.test(code) ? code : 'internal'}.`;
}
