import { execFileSync } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { Desk, MAIN } from '../../support/cli/desk.ts';

const SHELLS = ['bash', 'zsh', 'fish'];

/** The words that a bash offers after this line, with the script loaded and `agentchart` on the path. */
function completeInBash(desk: Desk, script: string, words: readonly string[]): string[] {
  desk.write('completion.bash', script);
  desk.write('agentchart', `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n`);
  chmodSync(desk.path('agentchart'), 0o755);
  const ask = `. ./completion.bash
COMP_WORDS=(${words.map(word => `'${word}'`).join(' ')})
COMP_CWORD=${words.length - 1}
_agentchart
printf '%s\\n' "\${COMPREPLY[@]}"`;
  const output = execFileSync('bash', ['--norc', '-c', ask], {
    cwd: desk.folder,
    env: { PATH: `${desk.folder}:${process.env.PATH}` },
  });
  return output.toString().trim().split('\n');
}

describe('completion', () => {
  test('in bash offers commands, the options of a command, and runs', async () => {
    const desk = new Desk([{ text: 'Done.' }]);
    const { runId } = await desk.begin();
    const script = (await desk.run(['completion', 'bash'])).stdout;
    expect(completeInBash(desk, script, ['agentchart', 're'])).toEqual([
      'resume',
      'reject',
      'resolve',
      'replay',
      'regress',
      'redact',
    ]);
    expect(completeInBash(desk, script, ['agentchart', 'runs', '--w'])).toEqual(['--waiting', '--wide']);
    expect(completeInBash(desk, script, ['agentchart', 'show', ''])).toEqual([runId]);
    expect(completeInBash(desk, script, ['agentchart', 'mcp', ''])).toEqual(['login', 'logout']);
    expect(completeInBash(desk, script, ['agentchart', 'mcp', 'login', '--no'])).toEqual(['--no-browser']);
  });

  test.each(SHELLS)('for %s has every command that the help lists, with its options', async shell => {
    const desk = new Desk([]);
    const script = (await desk.run(['completion', shell])).stdout;
    const help = (await desk.run(['help'])).stdout;
    const commands = [...help.matchAll(/^ {2}([a-z]+) (?:\[|<| {2})/gm)].map(([, name]) => name);
    expect(commands.length).toBeGreaterThan(20);
    for (const name of commands) expect(script).toMatch(new RegExp(`\\b${name}\\b`));
    expect(script).toMatch(/replay-tools/);
  });

  test('takes no run id into bash that the shell would carry out', async () => {
    const desk = new Desk([]);
    const script = (await desk.run(['completion', 'bash'])).stdout;
    const [, filter = ''] = /sed -n ('[^']*')/.exec(script) ?? [];
    const print = (id: string) =>
      execFileSync('sh', ['-c', `sed -n ${filter}`], {
        input: JSON.stringify({ runId: id, title: 'x' }),
      }).toString();
    expect(print('run_1')).toBe('run_1');
    for (const id of ['$(touch x)', '`id`', 'a b', "a'b"]) expect(print(id)).toBe('');
  });

  test('refuses another shell and names those that there are', async () => {
    const refused = await new Desk([]).run(['completion', 'ksh']);
    expect([refused.code, refused.stdout]).toEqual([2, '']);
    expect(refused.stderr).toContain('bash, zsh, fish');
  });
});
