import type { Tool, ToolSource } from '../../agent/index.ts';

/** Wraps a tool source so that the process kills itself (SIGKILL) as soon as the tool `name` has run. */
export function dieAfter(source: ToolSource, name: string): ToolSource {
  return {
    connect: async () => (await source.connect()).map(tool => (tool.name === name ? deadly(tool) : tool)),
    close: () => source.close(),
  };
}

function deadly(tool: Tool): Tool {
  return Object.assign(Object.create(tool) as Tool, {
    run: async (...args: Parameters<NonNullable<Tool['run']>>) => {
      const output = await tool.run?.(...args);
      process.kill(process.pid, 'SIGKILL');
      return output;
    },
  });
}
