/** A failure of the run or of a tool. `message` may contain secrets of the server. */
export type UIError = { type: 'run' | 'tool'; code: string; message: string; toolName?: string };

/** Returns the text that a page shows for a failure. */
export type DescribeError = (error: UIError) => string;

/** The default texts for failures: what failed and its code, without messages of providers and tools. */
export function describeSafely({ type, code, toolName }: UIError): string {
  if (type === 'tool') return `The call of ${toolName ?? 'a tool'} failed.`;
  return `The run failed: ${/^[\w-]{1,60}$/.test(code) ? code : 'internal'}.`;
}
