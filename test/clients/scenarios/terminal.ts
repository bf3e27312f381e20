import assert from 'node:assert/strict';
import { claude } from '../clients/claude.ts';
import type { Desk } from '../desk.ts';
import type { WireName } from '../upstream/script.ts';
import { countRounds } from '../upstream/wires.ts';
import type { Scenario } from './scenario.ts';

const PLAIN = claude('claude');

/** As after a first start, whose questions are answered. */
const CLIENT = {
  ...PLAIN,
  settings: ({ work, key }: Parameters<typeof PLAIN.settings>[0]) => ({
    '.claude.json': JSON.stringify({
      hasCompletedOnboarding: true,
      customApiKeyResponses: { approved: [key] },
      projects: { [work]: { hasTrustDialogAccepted: true } },
    }),
  }),
};
const WORDS = ['--allowedTools', 'Bash,Edit,Read,Write'];

const HANG = { type: 'hang', times: 1 } as const;

/** Claude Code in a terminal: interrupted by a key in the middle of an answer, told to go on, left, and resumed. */
export function terminal(wire: WireName): Scenario {
  const { tools } = CLIENT;
  return {
    name: `claude/${wire}/terminal`,
    client: CLIENT,
    wire,
    needs: 'tmux',
    // Gemini signs calls, for which Claude Code has no place: a new prompt goes on without.
    mayLose: wire === 'gemini',
    config: { keep_unstored: true },
    files: { 'notes.txt': 'one\n' },
    scripts: ({ place }) => [
      {
        name: 'task',
        at: countRounds,
        turns: [
          {
            reasoning: { text: 'I look first.' },
            text: 'I read it.',
            calls: [tools.read(place, 'notes.txt')],
          },
          { reasoning: 'sealed', calls: [tools.edit(place, 'notes.txt', 'one', 'two')] },
          {
            text: 'This is a long answer, which the person does not want to read to its end.',
            calls: [tools.write(place, 'new.txt', 'first line\n')],
            trouble: HANG,
          },
          {
            reasoning: { text: 'Once more.' },
            calls: [tools.shell(place, 'echo three >> notes.txt')],
            trouble: HANG,
          },
          { text: 'All is done.' },
        ],
      },
    ],
    play: async desk => {
      const { upstream } = desk;
      const hangs = (turn: number) => upstream.until(seen => seen.some(one => one.turn === turn));
      const isLeft = () => upstream.until(seen => seen.every(({ outcome }) => outcome !== 'open'));
      const variables = CLIENT.variables(desk.place);

      const first = desk.openTerminal([...WORDS, '--', 'Change the files.'], variables);
      await hangs(2);
      first.press('Escape');
      await isLeft();
      assert.equal(desk.read('notes.txt'), 'two\n');
      first.write('Go on.');
      await hangs(3);
      assert.equal(desk.read('new.txt'), 'first line\n');
      first.close();
      await isLeft();

      const [session] = await sessionsOf(desk);
      desk.openTerminal([...WORDS, '--resume', session ?? '', '--', 'Please go on.'], variables);
      await upstream.until(seen => seen.some(({ turn, outcome }) => turn === 4 && outcome === 'answered'));
      assert.equal(desk.read('notes.txt'), 'two\nthree\n');
      assert.deepEqual(
        upstream.turns.map(({ turn, outcome }) => `${turn} ${outcome}`),
        ['0 answered', '1 answered', '2 left', '2 answered', '3 left', '3 answered', '4 answered'],
      );
      assert.deepEqual(await sessionsOf(desk), [session]);
      return 'interrupted, told to go on, resumed';
    },
  };
}

/** The sessions that the page lists, without titles and the like. */
async function sessionsOf(desk: Desk): Promise<(string | undefined)[]> {
  const main = (await desk.runs()).filter(({ labels }) => labels.thread === undefined);
  return [...new Set(main.map(({ labels }) => labels.session))];
}
