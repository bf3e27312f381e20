import assert from 'node:assert/strict';
import { claude } from '../clients/claude.ts';
import type { WireName } from '../upstream/script.ts';
import { PICTURE } from './long.ts';
import type { Scenario } from './scenario.ts';

const CLIENT = claude('claude');

/**
 * A tool of Claude Code reads a picture, which providers with pictures in results get. The answer comes with reasoning
 * that has no text, and is printed alone.
 */
export function picture(wire: WireName): Scenario {
  return {
    name: `claude/${wire}/picture`,
    client: CLIENT,
    wire,
    files: { 'picture.png': Buffer.from(PICTURE, 'base64') },
    scripts: ({ place }) => [
      {
        name: 'task',
        turns: [
          { calls: [CLIENT.tools.read(place, 'picture.png')] },
          { reasoning: 'sealed', text: 'It is white.' },
        ],
      },
    ],
    play: async desk => {
      const { stdout } = await desk.ask('Which colour is the picture?');
      assert.equal(stdout, 'It is white.\n');
      const shows = JSON.stringify(desk.upstream.turns.at(-1)?.body).includes(PICTURE.slice(0, 40));
      assert.equal(shows, ['anthropic', 'gemini', 'openai'].includes(wire));
      return shows ? 'the model sees the picture' : 'the model is told of the picture';
    },
  };
}
