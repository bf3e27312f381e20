import { textIn } from '../../../../adapters/turn/json-access.ts';
import { type PromptMessage, readPrompt } from '../../../../examples/stand-in/wire/harmony.ts';
import type { JsonObject } from '../../../../protocol/json.ts';
import { type Fact, inputOf, textFacts } from './fact.ts';

/** The facts of a prompt in the Harmony format, which has no ids. */
export function readHarmonyPrompt(body: JsonObject): Fact[] {
  return readPrompt(textIn(body.prompt)).flatMap(factsOf);
}

/** The speakers in a prompt, in order, without instructions and reasoning. */
export function rolesInPrompt(body: JsonObject): string[] {
  return readPrompt(textIn(body.prompt))
    .filter(({ role, channel }) => !['system', 'developer'].includes(role) && channel !== 'analysis')
    .map(({ role, to }) => (to === '' ? role : `${role} to ${to}`));
}

function factsOf({ role, to, channel, content }: PromptMessage): Fact[] {
  if (role === 'developer') return textFacts('instruction', /^# Instructions\n\n(.*)$/m.exec(content)?.[1]);
  if (role === 'user') return textFacts('user', content);
  if (to === 'assistant') return [{ type: 'result', id: '', output: content }];
  if (role !== 'assistant') return [];
  if (to !== '')
    return [{ type: 'call', id: '', name: to.replace('functions.', ''), input: inputOf(content) }];
  return textFacts(channel === 'analysis' ? 'thought' : 'text', content);
}
