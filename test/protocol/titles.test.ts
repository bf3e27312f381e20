import { expect, test } from 'vitest';
import type { Item } from '../../protocol/item.ts';
import { titleOf } from '../../protocol/listing/label.ts';

const says = (role: 'user' | 'assistant' | 'system', ...texts: string[]): Item => ({
  type: 'message',
  role,
  content: texts.map(text => ({ type: 'text', text })),
});

const REMINDER = '<system-reminder>\nUse no emoji.\n</system-reminder>\n';

test('a run has the first line of the user’s words as its title', () => {
  expect(titleOf({ input: [says('system', 'Be brief.'), says('user', '', ' Fix it\nplease')] })).toBe(
    'Fix it',
  );
});

test('a given title counts first', () => {
  expect(titleOf({ title: 'Mine', input: [says('user', 'Fix it')] })).toBe('Mine');
});

test.each([
  ['a reminder', REMINDER],
  ['an environment', '<environment_context>\n  <cwd>/tmp</cwd>\n</environment_context>'],
  ['an element with attributes', '<context source="goal">Go on</context>'],
  ['a tag before a picture', '<image name=[Image #1] path="a.png">'],
  ['a file that was read', 'Called the Read tool with the following input: {"filePath":"a.png"}'],
  ['a notice of an interruption', '[Request interrupted by user for tool use]'],
  [
    'the instructions of a project',
    '# AGENTS.md instructions for /tmp\n\n<INSTRUCTIONS>\nx\n</INSTRUCTIONS>',
  ],
])('%s that a client adds is not the title, in the same message or in one before', (_, added) => {
  expect(titleOf({ input: [says('user', added, 'Fix it')] })).toBe('Fix it');
  expect(titleOf({ input: [says('user', added), says('user', 'Fix it')] })).toBe('Fix it');
});

test('words beside an element are the user’s', () => {
  expect(titleOf({ input: [says('user', '<b>Now</b> fix it')] })).toBe('<b>Now</b> fix it');
});

test('elements on lines of their own before the user’s words are not', () => {
  const files = '<file name="a.png"></file>\n<file name="b.txt">\none\n</file>\n';
  expect(titleOf({ input: [says('user', `${files}Fix it`)] })).toBe('Fix it');
});

test('an element is the title if the user said nothing else', () => {
  expect(titleOf({ input: [says('user', '<task>Fix it</task>')] })).toBe('<task>Fix it</task>');
});

test('a run whose input is a conversation has the words that it answers as its title', () => {
  const before = [says('user', REMINDER, 'Fix it'), says('assistant', 'Fixed.')];
  expect(titleOf({ input: [...before, says('user', REMINDER, 'Test it', 'now')] })).toBe('Test it');
  expect(titleOf({ input: [...before, says('user', REMINDER)] })).toBe('Fix it');
});
