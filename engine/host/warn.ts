/** Reports a problem to whoever operates this process: by default, Node prints the line on stderr. */
export function warn(line: string): void {
  globalThis.process?.emitWarning?.(line, 'AgentchartWarning');
}
