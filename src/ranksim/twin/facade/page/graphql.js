// GraphiQL with the schema, an example of each root field, and the limits. Nothing is kept once it is closed.
"use strict";
(async () => {
  const { createElement, useState } = React;
  const { schema, examples, about } = await (await fetch("/docs/graphql.json")).json();
  const fetcher = GraphiQL.createFetcher({ url: location.pathname });
  const storage = { length: 0, getItem: () => null, setItem() {}, removeItem() {}, clear() {} };

  function Page() {
    const [query, setQuery] = useState(`${about}\n${examples.slots.query}`);
    const [variables, setVariables] = useState("");
    const explorer = GraphiQLPluginExplorer.useExplorerPlugin({ query, onEdit: setQuery });
    const choose = (event) => {
      const example = examples[event.target.value];
      setQuery(example.query);
      setVariables(JSON.stringify(example.variables, null, 2));
    };
    const names = ["example", ...Object.keys(examples)].map((name, place) =>
      createElement("option", { key: name, disabled: place === 0 }, name));
    const select = createElement(
      "select", { "aria-label": "Example", defaultValue: "example", onChange: choose }, ...names);
    return createElement(GraphiQL, {
      fetcher, schema, storage, query, variables, plugins: [explorer],
      onEditQuery: setQuery, onEditVariables: setVariables,
      defaultEditorToolsVisibility: "headers", headers: '{ "Authorization": "Bearer " }',
      shouldPersistHeaders: false, showPersistHeadersSettings: false,
    }, createElement(GraphiQL.Logo, null, select));
  }

  ReactDOM.render(createElement(Page), document.getElementById("graphiql"));
})();
