type Attributes = { [name: string]: string | number | boolean | undefined | ((event: Event) => void) };
type Child = Node | string | null | undefined | false | readonly Child[];

/**
 * Creates an element. String children become text nodes; `onclick: fn` adds a listener; `true` sets an attribute,
 * `false` and `undefined` omit it.
 */
export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== undefined) element.setAttribute(name, String(value));
  }
  append(element, children);
  return element;
}

function append(parent: Element, children: readonly Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (typeof child === 'string' || child instanceof Node) parent.append(child);
    else append(parent, child);
  }
}

/** Replaces an element's content only if `version` has changed, so that unchanged content keeps focus and selection. */
export function fill(element: Element, version: readonly unknown[], make: () => Child): void {
  const before = versions.get(element);
  if (before?.length === version.length && version.every((part, index) => isSame(part, before[index])))
    return;
  versions.set(element, version);
  element.replaceChildren();
  append(element, [make()]);
}

const versions = new WeakMap<Element, readonly unknown[]>();

function isSame(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true;
  if (typeof one !== 'object' || typeof other !== 'object') return false;
  return JSON.stringify(one) === JSON.stringify(other);
}
