import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { built } from '../support/built.ts';
import { Desk, eventsOf, LIBRARY } from '../support/cli/desk.ts';

const EVERYTHING = resolve('node_modules/@modelcontextprotocol/server-everything/dist/index.js');
const MCP = pathToFileURL(built('tools/mcp.ts')).href;

const moduleWith = (...names: string[]) => `
import { createAgent } from ${JSON.stringify(LIBRARY)};
import { mcp } from ${JSON.stringify(MCP)};

const open = (name, prefix) => mcp({ name, prefix, command: process.execPath, args: [${JSON.stringify(EVERYTHING)}, 'stdio'] });

export default createAgent({ name: 'desk', tools: [${names.map(name => `open('${name}', '${name}_')`)}] });
`;

function deskWith(...names: string[]) {
  const desk = new Desk([{ text: 'Rain.' }]);
  const agent = desk.write('desk.mjs', moduleWith(...names));
  return (...args: string[]) => desk.run(['run', '--agent', agent, '--json', ...args], desk.model);
}

const inputIn = (stdout: string) =>
  eventsOf(stdout).flatMap(event =>
    event.type === 'run.started' ? event.input.map(item => ('content' in item ? item.content : item)) : [],
  );

test('run --prompt starts with the messages of a prompt of a server, and the input after them', async () => {
  const run = deskWith('weather');
  const { code, stdout } = await run(
    '--prompt',
    'args-prompt',
    '--arg',
    'city=Ulm',
    '--arg',
    'state=',
    'In',
    'short.',
  );
  expect(code).toBe(0);
  expect(inputIn(stdout)).toEqual([
    [{ type: 'text', text: "What's weather in Ulm?" }],
    [{ type: 'text', text: 'In short.' }],
  ]);
});

test('run --prompt names the server when several have the prompt, and what is wrong otherwise', async () => {
  const run = deskWith('north', 'south');
  const ambiguous = await run('--prompt', 'simple-prompt');
  expect(ambiguous).toMatchObject({ code: 2 });
  expect(ambiguous.stderr).toContain('There are north/simple-prompt, south/simple-prompt.');
  expect((await run('--prompt', 'south/simple-prompt')).code).toBe(0);
  expect((await run('--prompt', 'none')).stderr).toContain(
    'no server has a prompt "none". There are north/simple-prompt',
  );
  expect((await run('--prompt', 'south/args-prompt')).stderr).toContain(
    'takes city, state (optional); without city',
  );
});

test('run --prompt needs a server, and --arg a prompt and a name', async () => {
  const run = deskWith();
  expect(await run('--prompt', 'a')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('has no MCP server'),
  });
  expect(await run('--arg', 'a=b', 'go')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--prompt NAME'),
  });
  expect(await run('--prompt', 'a', '--arg', '=b')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--arg must be NAME=VALUE, got "=b"'),
  });
});

test('run --prompt ends the servers of a prompt that cannot be used, and its process', async () => {
  const desk = new Desk([{ text: 'Rain.' }]);
  const agent = desk.write('desk.mjs', moduleWith('north', 'south'));
  const ended = await desk.runAlone(['run', '--agent', agent, '--prompt', 'north/none'], desk.model);
  expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining('"north" has no prompt "none"') });
  const untitled = ['--prompt', 'north/simple-prompt', '--title', 'x'.repeat(300)];
  const refused = await desk.runAlone(['run', '--agent', agent, ...untitled], desk.model);
  expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('title') });
});
