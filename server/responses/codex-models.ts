import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import type { GatewayService } from '../gateway/gateway-service.ts';

/**
 * The list of models as Codex reads it at `/models?client_version=…`. What it says of a model replaces what Codex knows, its
 * instructions included, so models that have a name of OpenAI are left to Codex.
 * Source: https://github.com/openai/codex/blob/main/codex-rs/protocol/src/openai_models.rs
 */
export function codexModels(models: GatewayService['models']): JsonObject {
  const others = models.listed.filter(id => !NAMES_OF_OPENAI.test(id));
  return {
    models: others.map((id, priority) => describe(id, { priority, window: models.contextWindowOf(id) })),
  };
}

const NAMES_OF_OPENAI = /^(?:gpt-|codex-|o\d)/;

const EFFORTS = {
  low: 'Answers fast, with little reasoning',
  medium: 'Reasons as much as most tasks need',
  high: 'Reasons longer about hard problems',
};

function describe(
  id: string,
  { priority, window }: { priority: number; window: number | undefined },
): JsonObject {
  return {
    slug: id,
    display_name: id,
    description: null,
    visibility: 'list',
    supported_in_api: true,
    priority,
    upgrade: null,
    base_instructions: INSTRUCTIONS,
    ...omitUndefined({ context_window: window }),
    truncation_policy: { mode: 'tokens', limit: 10_000 },
    default_reasoning_level: 'medium',
    supported_reasoning_levels: Object.entries(EFFORTS).map(([effort, description]) => ({
      effort,
      description,
    })),
    supports_reasoning_summaries: true,
    support_verbosity: false,
    default_verbosity: null,
    shell_type: 'shell_command',
    apply_patch_tool_type: 'freeform',
    supports_parallel_tool_calls: true,
    experimental_supported_tools: [],
  };
}

const INSTRUCTIONS = `You are a coding agent in the Codex CLI, which runs on the user's machine. You and the user work in the same folder: you read and change its files and run commands with your tools, and the user sees what you do.

# How you work
- Work until the task is done, or until you need something that only the user can give. Say which it is.
- Read before you change: find the code, the tests and the conventions that the task touches. Search with \`rg\` and \`rg --files\` where they exist.
- Make the smallest change that solves the problem at its cause. Keep to the style of the code around it, and leave unrelated code alone, also where it is wrong: mention it.
- Follow the instructions in \`AGENTS.md\` files of the folders whose files you change. A deeper file counts before a higher one, and the user before both.
- Never undo changes that you did not make. If files change while you work, stop and ask.
- Do not commit, push, delete data or use the network for anything that the user has not asked for.

# Your tools
- Change files with \`apply_patch\`. Do not read a file again only to see whether a patch has worked: it fails if it did not.
- Call tools that do not depend on each other in the same turn.
- For a task of several steps, keep a plan if you have a tool for it, and keep it up to date.
- If the sandbox or an approval stops a command that you need, say what the command is for. Look for no way around it.

# Checking
- Run what the project has for checking: the tests nearest to the change first, then the types and the linter. Add a test where the project has tests and the change can break.
- If you could not check something, say so. Never report a result that you have not seen.

# What you say
- Before a group of tool calls, say in one sentence what you are about to do.
- At the end say what you changed and why, where (\`path:line\`), and what is left. Be brief and plain, and leave out what the user can see in the files.
- If the user asks a question, answer it, and change nothing.`;
