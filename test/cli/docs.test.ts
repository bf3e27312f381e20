import { readFileSync } from 'node:fs';
import { expect, test, vi } from 'vitest';
import { pointTo } from '../../cli/exit-codes.ts';
import { Desk } from '../support/cli/desk.ts';

const desk = new Desk([]);
/** Without what only the site and tests read. */
const page = (topic: string) =>
  readFileSync(new URL(`../../docs/${topic}.md`, import.meta.url), 'utf8').replaceAll(
    /<!--[\s\S]*?-->\n*/g,
    '',
  );

test('docs lists the pages by section, and in JSON one a line', async () => {
  const listed = await desk.run(['docs']);
  expect([listed.code, listed.stderr]).toEqual([0, '']);
  expect(listed.stdout).toMatch(/^Start\n {2}guide\/start +Start\n\nConcepts\n/);
  expect(listed.stdout).toMatch(/^ {2}guide\/errors +Errors$/m);
  const { stdout } = await desk.run(['docs', '--json']);
  const lines = stdout
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line));
  expect(lines).toContainEqual({ section: 'Build', topic: 'guide/approvals', title: 'Approvals' });
});

test.each([['guide/approvals'], ['approvals'], ['Approvals'], ['approvals.md'], ['aprovals']])(
  'docs %s prints the page about approvals, without its hidden comments',
  async topic => {
    const { code, stdout } = await desk.run(['docs', topic]);
    expect(code).toBe(0);
    expect(stdout).toBe(page('guide/approvals'));
  },
);

test('docs lists the pages of a section, unless a page has its name', async () => {
  const { code, stdout } = await desk.run(['docs', 'migrate']);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^Migrate\n {2}migrate\/ai-sdk +From the AI SDK\n/);
  expect(stdout).not.toContain('guide/');
  expect((await desk.run(['docs', 'why'])).stdout).toBe(page('why'));
});

test('docs finds a page by several words of its title, in JSON too', async () => {
  const { stdout } = await desk.run(['docs', 'finding', 'runs', '--json']);
  expect(JSON.parse(stdout)).toEqual({
    section: 'Operate',
    topic: 'runs',
    title: 'Finding runs',
    text: page('runs'),
  });
});

test('docs names the pages that are near an unclear topic, and those that have an unknown one in their text', async () => {
  const near = await desk.run(['docs', 'front']);
  expect(near).toMatchObject({ code: 2, stdout: '' });
  expect(near.stderr).toContain('Several pages are near "front": guide/front-ends, fronts');
  const within = await desk.run(['docs', 'recursion_limit']);
  expect([within.code, within.stderr]).toEqual([
    2,
    'No page is named "recursion_limit". In its text it is on: guide/errors.\n',
  ]);
  const another = await desk.run(['docs', 'usage-unknown']);
  expect([another.code, another.stderr]).toEqual([
    2,
    expect.stringMatching(/^No page is named "usage-unknown"\. In its text it is on: .*guide\/production/),
  ]);
  const none = await desk.run(['docs', 'xyzzy-xyzzy']);
  expect(none.stderr).toBe(
    'No page is named "xyzzy-xyzzy", and none has it in its text. `agentchart docs` lists all.\n',
  );
});

test('an error names the page of its code, which bad usage does not', async () => {
  const unknown = await desk.run(['show', 'run_missing', '--db', desk.write('new.db', '')]);
  expect(unknown.stderr).toMatch(/\nMore: agentchart docs [a-z]+-[a-z-]+\n$/);
  const usage = await desk.run(['runs', '--since', 'yesterday']);
  expect(usage.stderr).not.toContain('More:');
  vi.stubEnv('npm_command', 'exec');
  expect(pointTo('run-unknown')).toBe('More: npx agentchart docs run-unknown');
  vi.stubEnv('npm_command', undefined);
  expect(pointTo('run-unknown', 'https://docs.example/agentchart')).toBe(
    'More: agentchart docs run-unknown or https://docs.example/agentchart/errors/run-unknown.html',
  );
  expect([pointTo('output-invalid'), pointTo('not-found'), pointTo('ENOENT')]).toEqual([
    'More: agentchart docs output-invalid',
    'More: agentchart docs not-found',
    '',
  ]);
});
