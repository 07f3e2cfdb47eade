<?xml version="1.0"?>
<!-- How many valves each hall has; whether a hall was named before is looked for among all valves before. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output method="html" indent="no"/>
  <xsl:template match="/stock">
    <html><body>
      <xsl:for-each select="valve[not(@hall = preceding-sibling::valve/@hall)]">
        <xsl:sort select="@hall" data-type="number"/>
        <h2>Hall <xsl:value-of select="@hall"/>: <xsl:value-of select="count(../valve[@hall = current()/@hall])"/> valves</h2>
      </xsl:for-each>
    </body></html>
  </xsl:template>
</xsl:stylesheet>
