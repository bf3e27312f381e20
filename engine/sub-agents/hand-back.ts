import type { Context } from '../../machines/context.ts';
import { isJsonObject } from '../../protocol/json.ts';
import { oncePer } from '../../protocol/once-per.ts';
import type { Tool } from '../../protocol/tool.ts';

/** The name of the tool that hands the conversation to an agent, as far as tools can have it. */
export function transferTo(agent: string): string {
  return `transfer_to_${agent.replace(/[^A-Za-z0-9_-]/g, '_')}`.slice(0, 64);
}

type Tools = ReadonlyMap<string, Tool>;

/** The tools of a run: if the conversation was handed to it, also the one that hands it back. */
export function toolsIn(tools: Tools, { handedBy }: Pick<Context, 'handedBy'>): Tools {
  return handedBy === undefined ? tools : withHandBack(tools)(handedBy);
}

const withHandBack = oncePer((tools: Tools) => {
  const known = new Map<string, Tools>();
  return (agent: string): Tools => {
    const found = known.get(agent) ?? new Map([...tools, [transferTo(agent), handBackTo(agent)]]);
    known.set(agent, found);
    return found;
  };
});

function handBackTo(agent: string): Tool {
  return {
    name: transferTo(agent),
    description: `Hands the conversation back to ${agent}, which then answers the user. Use it, in a turn of its own, for what is not your task. Do not write an answer in that turn.`,
    inputSchema: {
      type: 'object',
      properties: { note: { type: 'string', description: `What ${agent} has to know and to do.` } },
    },
    sideEffect: 'none',
    retries: 0,
    fixedApproval: false,
    answers: 'back',
    approval: () => false,
    validate: value =>
      isJsonObject(value) && (value.note === undefined || typeof value.note === 'string')
        ? { valid: true, value }
        : { valid: false, message: 'expected an object with the text "note", or none' },
    run: input => (isJsonObject(input) && typeof input.note === 'string' ? input.note : ''),
  };
}
