import { hash } from 'node:crypto';
import { globSync, readFileSync } from 'node:fs';
import { type Mutant, mutantsOf } from './mutate.ts';

/** A folder whose files are mutated, and the tests that mirror it: those run first. */
export type Room = { folder: string; tests: readonly string[] };

const ROOMS: readonly Room[] = [
  { folder: 'engine/driver', tests: ['engine/driver', 'engine/live'] },
  { folder: 'engine/journal', tests: ['engine/journal', 'engine/versions'] },
  { folder: 'engine/run', tests: ['engine/run', 'engine/debugger'] },
  { folder: 'stores', tests: ['stores'] },
  { folder: 'machines', tests: ['machines'] },
  { folder: 'server/access', tests: ['server/access', 'server/tokens', 'access'] },
];

/** The checks for stores are tests; `test/stores/conformance.test.ts` plants faults of its own. */
const SPARED = 'stores/conformance';

/** A mutant that no test can catch, as the report shows it, and why. */
export type Equivalent = { file: string; from: string; to: string; why: string };

/** The room of a file. Throws for files of other rooms. */
export function roomOf(file: string): Room {
  const room = ROOMS.find(({ folder }) => file.startsWith(`${folder}/`));
  if (room !== undefined) return room;
  const folders = ROOMS.map(({ folder }) => folder).join(', ');
  throw new Error(`Expected a file in ${folders}, and got "${file}".`);
}

/**
 * Chooses mutants by seed: as many of each room, and within a room as many of each operator as there are. A change of
 * one place of the sources changes the choice only there.
 */
export function chooseMutants(count: number, seed: number, equivalents: readonly Equivalent[]): Mutant[] {
  const rooms = ROOMS.map(({ folder }) => {
    const mutants = inTurn(listMutants(`${folder}/**/*.ts`), seed);
    return mutants.filter(mutant => !isEquivalent(mutant, equivalents));
  });
  const chosen: Mutant[] = [];
  for (let turn = 0; chosen.length < count && rooms.some(mutants => turn < mutants.length); turn += 1)
    chosen.push(...rooms.flatMap(mutants => mutants.slice(turn, turn + 1)));
  return chosen.slice(0, count).sort((one, other) => (one.file < other.file ? -1 : 1));
}

/** The mutants of the files, in the order of their places. */
export function listMutants(files: string): Mutant[] {
  return globSync(files)
    .filter(file => !file.startsWith(SPARED))
    .sort()
    .flatMap(file => mutantsOf(file, readFileSync(file, 'utf8')));
}

export function isEquivalent({ file, from, to }: Mutant, equivalents: readonly Equivalent[]): boolean {
  return equivalents.some(other => other.file === file && other.from === from && other.to === to);
}

/** Shuffled, with the operators one after the other. */
function inTurn(mutants: readonly Mutant[], seed: number): Mutant[] {
  const shuffled = mutants
    .map(mutant => ({ mutant, at: hash('sha256', `${seed} ${mutant.file} ${mutant.from} ${mutant.to}`) }))
    .sort((one, other) => (one.at < other.at ? -1 : 1));
  const ranks = new Map<string, number>();
  const ranked = shuffled.map(({ mutant }) => {
    const rank = ranks.get(mutant.operator) ?? 0;
    ranks.set(mutant.operator, rank + 1);
    return { mutant, rank };
  });
  return ranked.sort((one, other) => one.rank - other.rank).map(({ mutant }) => mutant);
}
