import type { UnreadFile } from '../steward/write-report.ts';
import * as say from './answers.ts';
import { isCallOf, type KnownTool, type PastCall } from './history.ts';
import { readFolderList, readTree } from './listing-text.ts';
import { joinPath, relativePath } from './paths.ts';
import { answer, BATCH, type PlannedTurn } from './turn.ts';

const SKIPPED = ['node_modules', '.git'];

/** All relative paths in the folder, or the next turn: it lists more, or reports a failure. */
type Listing =
  | { type: 'turn'; turn: PlannedTurn }
  | { type: 'listed'; paths: string[]; failures: UnreadFile[] };

/** Returns the next step of listing `root`: with one `directory_tree`, or folder by folder with `list_directory`. */
export function listFolder(
  root: string,
  calls: readonly PastCall[],
  use: (tool: KnownTool) => string | undefined,
): Listing {
  const stop = (text: string): Listing => ({ type: 'turn', turn: answer(text) });
  const tree = calls.findLast(isCallOf('directory_tree'));
  if (tree) {
    const paths = tree.outcome.failed ? null : readTree(tree.outcome.text);
    return paths ? { type: 'listed', paths, failures: [] } : stop(say.failListing(root, tree.outcome.text));
  }
  const byTree = use('directory_tree');
  const listed = calls.filter(isCallOf('list_directory'));
  if (byTree && listed.length === 0) {
    const input = { path: root, excludePatterns: SKIPPED };
    return { type: 'turn', turn: { text: say.announceListing(root), calls: [{ name: byTree, input }] } };
  }

  const answered = new Map(listed.map(call => [relativePath(root, call.input.path), call.outcome]));
  const top = answered.get('');
  if (top?.failed) return stop(say.failListing(root, top.text));
  const paths: string[] = [];
  const failures: UnreadFile[] = [];
  const missing: string[] = [];
  for (const folders = ['']; folders.length > 0; ) {
    const folder = folders.shift() ?? '';
    const outcome = answered.get(folder);
    if (!outcome) missing.push(folder);
    else if (outcome.failed) failures.push({ path: `${folder}/`, reason: outcome.text });
    else {
      const entries = readFolderList(outcome.text, folder);
      paths.push(...entries.files, ...entries.folders);
      folders.push(...entries.folders.filter(path => !SKIPPED.some(name => `/${path}`.endsWith(`/${name}`))));
    }
  }
  if (missing.length === 0) return { type: 'listed', paths, failures };
  const name = use('list_directory');
  if (name === undefined) return stop(say.missTool('list the folder', 'directory_tree or list_directory'));
  const next = missing.slice(0, BATCH);
  const text = top ? say.announceFolders(next) : say.announceListing(root);
  const listings = next.map(folder => ({ name, input: { path: joinPath(root, folder) } }));
  return { type: 'turn', turn: { text, calls: listings } };
}
