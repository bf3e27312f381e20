import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const tests = read('test/engine/questions/ask.test.ts');

/** The test that shows what each row of the table says. */
const SHOWN_BY: Readonly<Record<string, string>> = {
  'several at once': 'several at once are one rest; the answers may come one by one, each to its people',
  'one after the other, in a loop':
    'one after the other, and in loops: answers that are known return at once',
  'a key that is not asked':
    'an answer to an unknown key, to nothing, or to what was answered, is refused and says why',
  'a question that has changed':
    'a question that reads otherwise than before is another question, even under the same key',
  'an answer to another question than is open':
    'an answer to an unknown key, to nothing, or to what was answered, is refused and says why',
  'an answer twice':
    'an answer to an unknown key, to nothing, or to what was answered, is refused and says why',
  'an answer that the schema refuses':
    'an answer that the JSON Schema refuses is refused; one that only the tool refuses is asked for again',
  declined: 'declined: the model reads why, and the tool does not run',
  expired: 'expired: the fallback is the answer; without one the call fails',
  cancelled: 'cancelled with its run, or edited away: the question ends, and the tool never runs',
  'an edit of the call': 'an edit of the call asks anew',
  'a message instead': 'a message instead: it waits, or takes the place of the call',
  'of an approved call': 'after its approval: the approver decides first',
  'in a sub-agent': 'in sub-agents at any depth: it surfaces at the top run, and is answered there',
  '`by` and `not`': 'who may not answer is refused, and each question has its own people',
};

test('each row of the table of tools that ask is shown by a test of the engine', () => {
  const guide = read('docs/guide/tools-that-ask.md');
  const rows = guide.slice(guide.indexOf('## What happens')).matchAll(/^\| (?!case|---)(.+?) \| .+ \|$/gm);
  expect([...rows].map(([, name]) => name)).toEqual(Object.keys(SHOWN_BY));
  for (const title of Object.values(SHOWN_BY)) expect(tests).toContain(`test('${title}'`);
});
