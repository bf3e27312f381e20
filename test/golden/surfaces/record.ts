import type { Act, Scenario, Stage } from './stage.ts';
import { hideProcess, processesOf } from './stage.ts';

/** A surface, and how it shows a scenario, as a text of lines. */
export type Surface<Shown = Scenario> = {
  name: string;
  /** Why some scenarios cannot be shown: by scenario, or for all of a kind. */
  leavesOut?: (scenario: Shown) => boolean;
  record(scenario: Shown): Promise<string>;
};

/** The length from which a text is not repeated. */
const LONG = 200;

/** The lines of a recording. */
export class Recording {
  readonly #lines: string[] = [];
  /** Where a long text is already. */
  readonly #places = new Map<string, string>();
  #title = '';
  readonly #late: { title: string; text: Promise<string> }[] = [];

  constructor(about: string) {
    this.#lines.push(`# ${about}`);
  }

  title(title: string): void {
    this.#title = title;
    this.#lines.push('', `## ${title}`);
  }

  /** A text; of a long one that is there already only its place. */
  add(text: string): void {
    const known = this.#places.get(text);
    if (text.length > LONG) this.#places.set(text, known ?? this.#title);
    this.#lines.push(known === undefined ? text.trimEnd() : `(as under: ${known})`);
  }

  /** JSON on one line, or, for a list, one line for each member. */
  json(value: unknown): void {
    for (const member of Array.isArray(value) ? value : [value]) this.add(JSON.stringify(member));
  }

  /** A reader who came in the middle; what it got is added by `readers`. */
  reader(title: string, text: Promise<string>): void {
    text.catch(() => {});
    this.#late.push({ title, text });
  }

  async readers(): Promise<void> {
    for (const { title, text } of this.#late.splice(0)) {
      this.title(title);
      this.add(await text);
    }
  }

  /** What the surface told its operator. */
  log({ logged }: Stage): void {
    if (logged.length === 0) return;
    this.title('the log');
    this.add(logged.splice(0).join('\n'));
  }

  /** Whether the last title begins so. */
  isOf(title: string): boolean {
    return this.#title.startsWith(title);
  }

  /** The text, identical on every machine. */
  async text(stage: Stage): Promise<string> {
    this.log(stage);
    return `${hideProcess(this.#lines.join('\n'), await processesOf(stage.store))}\n`;
  }
}

/** Plays a scenario: `show` records each phase until the run settles. `late` is a reader who comes at a mark. */
export async function recordPhases(
  stage: Stage,
  show: (act: Act | null, recording: Recording) => Promise<void>,
  late?: () => Promise<string>,
): Promise<Recording> {
  const recording = new Recording(stage.scenario.about);
  let readers = 0;
  if (late !== undefined)
    stage.atMark = async () => {
      readers += 1;
      recording.reader(`late reader ${readers}`, late());
      await stage.host.idle();
    };
  await stage.play(async (title, act) => {
    recording.title(title);
    await show(act, recording);
  });
  await stage.until(recording.readers());
  return recording;
}
