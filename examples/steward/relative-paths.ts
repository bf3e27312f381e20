import { relative, resolve } from 'node:path';
import type { JsonObject, Tool, ToolSource } from '../../agent/index.ts';

/**
 * The same tools, but with paths relative to the working directory in their inputs and in short replies: the
 * filesystem server takes a relative path as relative to the folder that it serves.
 */
export function relativePaths(source: ToolSource, root: string): ToolSource {
  return {
    connect: async () => (await source.connect()).map(tool => withRelativePaths(tool, root)),
    close: () => source.close(),
  };
}

function withRelativePaths(tool: Tool, root: string): Tool {
  const { run } = tool;
  if (run === undefined) return tool;
  return Object.assign(Object.create(tool) as Tool, {
    run: async (input: JsonObject, context: Parameters<typeof run>[1]) => {
      const { path } = input;
      const output = await tool.run?.(
        typeof path === 'string' ? { ...input, path: resolve(path) } : input,
        context,
      );
      const isReply = tool.name === 'write_file' && typeof output === 'string';
      return isReply ? output.replaceAll(root, relative(process.cwd(), root)) : output;
    },
  });
}
