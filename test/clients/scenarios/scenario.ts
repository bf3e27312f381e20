import { type JsonObject, omitUndefined } from '../../../protocol/json.ts';
import type { Check } from '../check.ts';
import type { Client } from '../client.ts';
import { Desk } from '../desk.ts';
import type { Script, WireName } from '../upstream/script.ts';

/** What one client does over one wire, and what has to be true afterwards. */
export type Scenario = {
  /** As in `--only`, such as `pi-chat/anthropic/edits`. */
  name: string;
  client: Client;
  wire: WireName;
  /** A program that has to be installed. */
  needs?: 'tmux';
  config?: JsonObject;
  files?: Readonly<Record<string, string | Uint8Array>>;
  /** Whether the provider may get calls back without their reasoning. */
  mayLose?: boolean;
  /** Written once the folder of the client is known. */
  scripts: (desk: Desk) => readonly Script[];
  /** Throws if something is not as it should be. Returns what was found, in a few words. */
  play: (desk: Desk) => Promise<string>;
};

/** A scenario, and what holds for each: nothing was refused upstream, no reasoning lost, and nothing paid twice. */
export function checkOf({ name, needs, scripts, play, mayLose = false, ...options }: Scenario): Check {
  return {
    name,
    ...omitUndefined({ needs }),
    package: options.client.package,
    play: async (command, keeps) => {
      await using desk = await Desk.open({ ...options, command, scripts: [] });
      const { upstream } = desk;
      upstream.scripts = scripts(desk);
      try {
        const found = await play(desk);
        if (upstream.problems.length > 0) throw new Error('the upstream refused requests');
        if (upstream.lost.length > 0 && !mayLose)
          throw new Error(`without reasoning: ${upstream.lost.join('; ')}`);
        if (upstream.paidTwice.length > 0) throw new Error(`paid twice: ${upstream.paidTwice.join(', ')}`);
        if (!keeps) desk.remove();
        else console.log(`        ${name}: ${desk.writeRecord()}`);
        return found;
      } catch (error) {
        const about = [...upstream.problems, `see ${desk.writeRecord()}`].join('\n        ');
        throw new Error(`${error instanceof Error ? error.message : String(error)}\n        ${about}`, {
          cause: error,
        });
      }
    },
  };
}
