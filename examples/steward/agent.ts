import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { relative, resolve } from 'node:path';
import * as z from 'zod';
// In a project of your own: from 'agentchart', 'agentchart/tools/mcp' and 'agentchart/adapters/model-from-env'.
import { modelFromEnv } from '../../adapters/model-from-env.ts';
import { createAgent } from '../../agent/index.ts';
import { mcp } from '../../tools/mcp.ts';
import { dieAfter } from './die-after.ts';
import { stewardInstructions } from './instructions.ts';
import { relativePaths } from './relative-paths.ts';

/** The folder to check. `npm start` sets the variable. */
const root = resolve(process.env.STEWARD_FOLDER ?? '.agentchart/steward/documents');

const server = createRequire(import.meta.url).resolve(
  '@modelcontextprotocol/server-filesystem/dist/index.js',
);

const writing = z.object({ path: z.string(), content: z.string() });

const served = mcp({
  name: 'files',
  command: process.execPath,
  args: [server, root],
  cwd: root,
  tools: {
    directory_tree: { sideEffect: 'none' },
    list_directory: { sideEffect: 'none' },
    read_text_file: { sideEffect: 'none' },
    write_file: {
      sideEffect: 'once',
      approval: ({ input }) => ({ required: true, reason: `writes ${writing.parse(input).path}` }),
      reconcile: ({ input }) => {
        const { path, content } = writing.parse(input);
        const happened = existsSync(path) && readFileSync(path, 'utf8') === content;
        return happened ? { happened, output: `Successfully wrote to ${path}` } : { happened };
      },
    },
    ...hide(
      'create_directory',
      'edit_file',
      'get_file_info',
      'list_directory_with_sizes',
      'move_file',
      'read_file',
      'read_media_file',
      'read_multiple_files',
      'search_files',
    ),
  },
});

const files = relativePaths(served, root);

function hide(...names: string[]) {
  return Object.fromEntries(names.map(name => [name, { hidden: true }] as const));
}

/** For `npm start -- --crash`: kills the process after the write, before its result is in the journal. */
const tools = process.env.STEWARD_CRASH === 'after-write' ? dieAfter(files, 'write_file') : files;

/** Set where the process serves another agent with a model of its own, which AGENTCHART_MODEL would override. */
const model = process.env.STEWARD_MODEL;

export default createAgent({
  name: 'documentation-steward',
  ...(model !== undefined && { model: modelFromEnv(model) }),
  instructions: stewardInstructions(relative(process.cwd(), root) || '.'),
  tools: [tools],
});
