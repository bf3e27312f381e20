import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { skills } from '../../tools/skills.ts';
import { Desk } from '../support/cli/desk.ts';

/** The page for coding agents. `guides.test.ts` runs its code. */

const FOLDER = fileURLToPath(new URL('../../docs/skills', import.meta.url));
const text = readFileSync(`${FOLDER}/agentchart/SKILL.md`, 'utf8');
const desk = new Desk([]);

test('the skill is one, by its folder, name and description', async () => {
  const { description } = skills(FOLDER);
  expect(description).toContain('agentchart: Writes agents in TypeScript');
});

test('docs skill prints the whole file, so that it can be saved as a skill', async () => {
  expect(await desk.run(['docs', 'skill'])).toMatchObject({ code: 0, stdout: text });
});

test('each topic that the skill names is a page', async () => {
  const named = /## Where to look\n\n([\s\S]*)/.exec(text)?.[1]?.match(/`([\w-]+)`/g) ?? [];
  const topics = named.map(topic => topic.replaceAll('`', ''));
  expect(topics.length).toBeGreaterThan(10);
  for (const topic of topics) expect(await desk.run(['docs', topic]), topic).toMatchObject({ code: 0 });
});
